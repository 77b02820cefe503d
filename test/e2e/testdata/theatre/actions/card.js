// Shows a card: what a Node.js worker was asked, and by whom.
exports.show = async (params, ctx) => ({ shown: params, pid: process.pid, session: ctx.session ? ctx.session.id : null });
