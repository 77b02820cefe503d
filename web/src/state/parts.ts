// Parts of the console that are not of its first view. Each is a file of its own, which the browser loads when it is first shown, or before.
export const parts = {
  pool: () => import('../pages/Pool.svelte'), node: () => import('../pages/Node.svelte'), session: () => import('../pages/SessionPage.svelte'),
  failures: () => import('../pages/Errors.svelte'), letters: () => import('../pages/DeadLetters.svelte'), letter: () => import('../pages/DeadLetterPage.svelte'), change: () => import('../pages/Change.svelte'), tree: () => import('../pages/Tree.svelte'),
  webhooks: () => import('../pages/Webhooks.svelte'), operations: () => import('../pages/Operations.svelte'), operation: () => import('../pages/Operation.svelte'),
  action: () => import('../pages/Action.svelte'), changes: () => import('../pages/Changes.svelte'), settings: () => import('../pages/Settings.svelte'), past: () => import('../pages/PastList.svelte'),
  charts: () => import('../ui/Charts.svelte'), different: () => import('../ui/Different.svelte'), errors: () => import('../ui/ActionErrors.svelte'),
}

/** So long after the first view the rest is loaded, in milliseconds. */
const restAfter = 3000

/** Loads the parts that were not shown yet, one by one, once the first view is there: without the node, the pages still open, and say so. */
export function loadRest(): void {
  setTimeout(async () => {
    for (const load of Object.values(parts)) {
      try {
        await load()
      } catch { return /* the part says so where it is shown */ }
    }
  }, restAfter)
}
