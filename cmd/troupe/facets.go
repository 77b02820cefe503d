package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/facets"
)

// facets is the verb that counts executions by their values.
func (x executions) facets() *cobra.Command {
	var by []string
	limit, wants := 0, newWanted()
	cmd := &cobra.Command{
		Use: "facets", Short: "Count executions by status, action, pool, error code and other fields", Args: exactly(),
		Long: "Count the executions of a list by the values that they have. Up to 20,000 executions are counted, the newest first, for a third of a\n" +
			"second. Of more, within --since, the node adds up what was counted by minute, of those that ended; that has no workers, sessions and\n" +
			"labels. The last line says what was counted.",
		Example: "  troupe facets --since 1h\n  troupe facets --status failed --by error,worker --pool python\n  troupe facets --by label.team -o json",
	}
	f := cmd.Flags()
	f.StringSliceVar(&by, "by", nil, "what is counted by: "+oneOf(facets.Fields())+" or label.NAME; the first four where left out")
	f.IntVarP(&limit, "limit", "n", 20, "how many values of each field, 1 to 200")
	wants.flags(f)
	wants.ends(f)
	cmd.RunE = x.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		query, _, err := wants.query(ctx, c)
		if err != nil {
			return err
		}
		query.Set("limit", strconv.Itoa(limit))
		if len(by) > 0 {
			query["fields"] = by
		}
		return x.showFacets(ctx, c, query)
	})
	return cmd
}

func (x executions) showFacets(ctx context.Context, c *client.Client, query url.Values) error {
	var v api.Facets
	if err := c.Get(ctx, "/api/v1/facets?"+query.Encode(), &v); err != nil {
		return err
	}
	if err := x.show(v, []string{"FIELD", "VALUE", "COUNT"}, facetRows(&v)); err != nil || x.output == "json" {
		return err
	}
	_, err := fmt.Fprintln(x.out, visible(facetsBasis(&v)))
	return err
}

// facetRows are the values of each field, those of one field together.
func facetRows(v *api.Facets) [][]string {
	about := ""
	if !v.Exact {
		about = "≈"
	}
	names := make([]string, 0, len(v.Fields))
	for name := range v.Fields {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := fieldPlace(a) - fieldPlace(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var rows [][]string
	for _, name := range names {
		for _, n := range v.Fields[name] {
			rows = append(rows, []string{name, n.Value, about + strconv.FormatInt(n.N, 10)})
		}
		if left := v.Left[name]; left > 0 {
			rows = append(rows, []string{name, fmt.Sprintf("… and %d more", left), ""})
		}
	}
	return rows
}

// fieldPlace is the place of a field in a table. Labels come last.
func fieldPlace(name string) int {
	if i := slices.Index(facets.Fields(), facets.Field(name)); i >= 0 {
		return i
	}
	return len(facets.Fields())
}

// facetsBasis says what was counted.
func facetsBasis(v *api.Facets) string {
	switch {
	case v.Exact:
		return fmt.Sprintf("All %d executions are counted.", v.Executions)
	case v.Basis == facets.Minutes:
		return fmt.Sprintf("Added up by minute: %d executions that ended in that time. The last seconds may be missing.", v.Executions)
	case v.SearchedTo == nil:
		return fmt.Sprintf("%d executions are counted.", v.Executions)
	}
	share := ""
	if v.Share > 0 {
		share = fmt.Sprintf(", %.0f %% of the time", 100*v.Share)
	}
	return fmt.Sprintf("%d executions are counted, back to what was requested at %s%s; there may be more: give a shorter time.", v.Executions, clock(v.SearchedTo.At), share)
}
