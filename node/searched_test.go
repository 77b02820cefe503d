package node_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
)

// A text is searched in parameters only where pages show them at once, and never in those of an action that has secrets.
func TestParametersAreSearchedWhereTheyAreShown(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, *messages.Task) (any, error) { return nil, errors.New("no such order") }
	for payloads, found := range map[string]int{api.PayloadsShow: 1, api.PayloadsClick: 0, api.PayloadsHide: 0} {
		k := lab(t, func(c *node.Config) {
			handle(map[string]messages.Handler{"open": fail, "secret": fail})(c)
			c.Console.Payloads = payloads
		}, goPack(t, map[string]string{"open": "max_retries: 0\n", "secret": "max_retries: 0\nsecrets: [token]\n"}))
		open := k.run("t.open", object{"order": "A-17"})
		k.run("t.secret", object{"token": "A-17"})
		page, err := k.List(t.Context(), store.Filter{Texts: []string{"A-17"}})
		require.NoError(t, err)
		require.Len(t, page.Executions, found, payloads)
		if found > 0 {
			require.Equal(t, open.ID, page.Executions[0].ID)
		}
		page, err = k.List(t.Context(), store.Filter{Texts: []string{"no such order"}})
		require.NoError(t, err)
		require.Len(t, page.Executions, 2)
		require.NoError(t, k.stop())
	}
}
