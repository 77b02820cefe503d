"""Tests of the pack's own code; run from the pack's folder, without Troupe."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from actions import index  # noqa: E402
from embeddings_model import Model, cosine, grams  # noqa: E402


class Session:
    def __init__(self, state=None):
        self.state = {} if state is None else state
        self.lost = False


class Context:
    """As much of a context as the actions use."""

    def __init__(self, session):
        self.session = session
        self.told = []

    def progress(self, fraction, message):
        self.told.append(fraction)


TEXTS = ["the cat sat on the mat", "stocks fell sharply on Monday", "a recipe for apple pie with cinnamon"]


class IndexTest(unittest.TestCase):
    def setUp(self):
        self.ctx = Context(Session())

    def test_finds_the_nearest_text(self):
        self.assertEqual(index.add({"texts": TEXTS}, self.ctx), {"size": 3, "lost": False})
        for query, want in (("a sitting cat", 0), ("stock market on Mondays", 1), ("baking apples", 2)):
            found = index.search({"query": query, "top": 1}, self.ctx)
            self.assertEqual([m["text"] for m in found["matches"]], [TEXTS[want]], query)

    def test_sessions_do_not_see_each_other(self):
        index.add({"texts": TEXTS}, self.ctx)
        other = index.search({"query": "cat"}, Context(Session()))
        self.assertEqual(other, {"matches": [], "size": 0, "lost": False})

    def test_a_snapshot_is_json_and_restores_the_index(self):
        index.add({"texts": TEXTS}, self.ctx)
        saved = json.loads(json.dumps(index.snapshot(self.ctx.session.state)))
        self.assertEqual(saved, {"texts": TEXTS})
        moved = Context(Session(index.restore(saved)))
        query = {"query": "apple", "top": 3}
        self.assertEqual(index.search(query, moved), index.search(query, self.ctx))

    def test_a_cut_add_leaves_text_and_vector_together(self):
        index.add({"texts": TEXTS[:1]}, self.ctx)
        self.ctx.session.state["vectors"].append({"left": 1.0})  # as a cancel between the two appends leaves it
        index.add({"texts": TEXTS[1:]}, self.ctx)
        found = index.search({"query": "stocks", "top": 1}, self.ctx)
        self.assertEqual(found["matches"][0]["text"], TEXTS[1])

    def test_refuses_to_run_without_a_session(self):
        with self.assertRaisesRegex(ValueError, "submit it with a session"):
            index.add({"texts": TEXTS}, Context(None))

    def test_the_index_is_bounded(self):
        self.ctx.session.state.update(texts=["x"] * index.DOCUMENTS_MAX, vectors=[{}] * index.DOCUMENTS_MAX)
        with self.assertRaisesRegex(ValueError, "more than"):
            index.add({"texts": ["one more"]}, self.ctx)

    def test_progress_is_told_every_hundred_texts(self):
        index.add({"texts": ["text %d" % n for n in range(250)]}, self.ctx)
        self.assertEqual(self.ctx.told, [0.4, 0.8])


class ModelTest(unittest.TestCase):
    def test_vectors_have_length_one(self):
        vector = index.MODEL.vector(TEXTS[0])
        self.assertAlmostEqual(cosine(vector, vector), 1.0)

    def test_a_text_without_words_is_near_nothing(self):
        self.assertEqual(index.MODEL.vector("… !"), {})
        self.assertEqual(index.similarity({"a": "", "b": "cat"}), {"similarity": 0})

    def test_rare_grams_weigh_more(self):
        model = Model(["the cat", "the dog", "the owl"])
        vector = model.vector("the owl")
        self.assertLess(vector["<th"], vector["<ow"])

    def test_grams_are_of_words(self):
        self.assertEqual(grams("A bc"), ["<a", "a>", "<a>", "<b", "bc", "c>", "<bc", "bc>", "<bc>"])


if __name__ == "__main__":
    unittest.main()
