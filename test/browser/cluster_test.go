package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// cluster starts nodes n1, n2 … on one Postgres.
func cluster(t *testing.T, size int) []*node {
	t.Helper()
	store := servers.RoomyPostgres(t)
	var nodes []*node
	for i := range size {
		n := &node{
			dir: t.TempDir(), name: fmt.Sprintf("n%d", i+1), args: []string{"--listen", "127.0.0.1:0"},
			env: []string{"TROUPE_STORE_URL=" + store},
		}
		require.NoError(t, n.begin())
		t.Cleanup(n.kill)
		nodes = append(nodes, n)
	}
	return nodes
}

// The overview of each node shows all of them, and what any of them has submitted. A node that is killed is seen within seconds under
// open pages.
func TestThreeNodesSeeTheSame(t *testing.T) {
	apart(t)
	nodes := cluster(t, 3)
	var lists, overviews []*page
	for _, n := range nodes {
		overviews = append(overviews, open(t, n, "/console/"))
		lists = append(lists, open(t, n, "/console/executions?label=test%3Dcluster"))
	}
	for _, p := range overviews {
		for _, n := range nodes {
			p.shows("main", n.name)
		}
		p.until("three nodes live", func() bool { return p.value(alive) == "3" })
	}
	for i, n := range nodes {
		labelled(t, n, "cluster")
		for j, p := range lists {
			if i == 0 {
				p.shows("tbody", "completed")
			} else {
				p.shows(".newer", fmt.Sprintf("%d newer: show", i))
			}
			require.Equal(t, 1, p.count("tbody tr"), "page %d", j)
		}
	}
	overviews[2].cutOff()
	lists[2].cutOff()
	nodes[2].kill()
	overviews[2].shows(".lost", "The node does not answer")
	for _, p := range overviews[:2] {
		p.until("one is not alive any more, or out of reach", func() bool {
			return p.value(alive) == "2" || p.count(".trouble, .finding") > 0
		})
		p.until("two nodes live", func() bool { return p.value(alive) == "2" })
	}
	labelled(t, nodes[0], "cluster")
	for _, p := range lists[:2] {
		p.shows(".newer", "3 newer: show")
	}
	require.Equal(t, http.StatusOK, statusOf(t, nodes[1].url+"/healthz"))
}

// alive counts the nodes that an overview shows as alive.
const alive = `[...document.querySelectorAll('[data-node]')].filter((e) => e.dataset.node !== 'dead').length`

func statusOf(t *testing.T, url string) int {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	_ = answer.Body.Close()
	return answer.StatusCode
}
