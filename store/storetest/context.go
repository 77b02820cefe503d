package storetest

import (
	"context"

	"github.com/stretchr/testify/require"
)

// ctx is the test's context where it has one, as *testing.T and *rapid.T do.
func ctx(t require.TestingT) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}
