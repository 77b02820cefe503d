package storetest

import (
	"context"

	"github.com/stretchr/testify/require"
)

// ctx returns the test's context if it has one, like *testing.T and *rapid.T.
func ctx(t require.TestingT) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}
