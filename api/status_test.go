package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// Every code of a problem has a status, so that none is answered with 500 by mistake.
func TestEveryProblemHasAStatus(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../messages/problem.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.Ident); !ok || of.Name != "Code" {
			return true
		}
		code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		codes++
		require.Contains(t, statuses, kind{code: messages.Code(code)}, v.Names[0].Name)
		return true
	})
	require.Greater(t, codes, 25)
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, 400, StatusOf(&messages.Problem{Code: messages.CodeInvalidRequest}))
	require.Equal(t, 422, StatusOf(&messages.Problem{Code: messages.CodeInvalidRequest, Cause: messages.CauseAction}))
	require.Equal(t, 500, StatusOf(&messages.Problem{Code: messages.CodeInternal}))
	require.Equal(t, 502, StatusOf(&messages.Problem{Code: messages.CodeInternal, Cause: messages.CausePeer}))
	require.Equal(t, 500, StatusOf(&messages.Problem{Code: "nobody_knows_it"}))
}
