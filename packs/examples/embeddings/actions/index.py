"""An index per session over one model per process."""

from embeddings_model import build, cosine

MODEL = build()  # the expensive start: once, before the worker says that it is ready
DOCUMENTS_MAX = 10_000  # texts in one session's index


def add(params, ctx):
    """Add texts to the session's index."""
    index = _index(ctx)
    if len(index["texts"]) + len(params["texts"]) > DOCUMENTS_MAX:
        raise ValueError("the index would hold more than %d texts" % DOCUMENTS_MAX)
    for done, text in enumerate(params["texts"], 1):
        # The vector first: if the run is cancelled between the two, _index makes the lists equally long.
        index["vectors"].append(MODEL.vector(text))
        index["texts"].append(text)
        if done % 100 == 0:
            ctx.progress(done / len(params["texts"]), "%d texts" % done)
    return {"size": len(index["texts"]), "lost": ctx.session.lost}


def search(params, ctx):
    """Return the nearest texts, best first. ``lost`` says that texts added earlier are lost and must be added again."""
    index = _index(ctx)
    query = MODEL.vector(params["query"])
    scored = [(cosine(query, vector), text) for vector, text in zip(index["vectors"], index["texts"])]
    scored.sort(key=lambda pair: -pair[0])
    top = scored[: params.get("top", 3)]
    return {
        "matches": [{"score": round(score, 4), "text": text} for score, text in top],
        "size": len(index["texts"]),
        "lost": ctx.session.lost,
    }


def similarity(params):
    """Compare two texts."""
    return {"similarity": round(cosine(MODEL.vector(params["a"]), MODEL.vector(params["b"])), 4)}


def snapshot(state):
    """Save only the texts: the vectors are many times as large and are derived from them."""
    return {"texts": state.get("texts", [])}


def restore(saved):
    """Build the index again on another worker."""
    return {"texts": list(saved["texts"]), "vectors": [MODEL.vector(text) for text in saved["texts"]]}


def health():
    """A model that has lost its weights must not get executions."""
    return {"grams": len(MODEL._weights)} if MODEL._weights else False


def _index(ctx):
    if ctx.session is None:
        raise ValueError("this action keeps an index per session: submit it with a session")
    state = ctx.session.state
    texts = state.setdefault("texts", [])
    vectors = state.setdefault("vectors", [])
    del vectors[len(texts):]
    return state
