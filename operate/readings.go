package operate

import (
	"context"

	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/alerts"
)

// Readings are what the series of all live nodes have come to, and the nodes that did not answer.
func (f *fleet) Readings(ctx context.Context) ([]alerts.NodeReading, []view.Unreached, error) {
	shares, err := everywhere(ctx, f, "", f.cfg.Readings, func(after string) wire.Body { return wire.Readings{After: after} })
	if err != nil {
		return nil, nil, err
	}
	all := []alerts.NodeReading{}
	for i := range shares {
		if s := &shares[i]; s.err == nil {
			all = append(all, alerts.NodeReading{Node: s.node.Name, Readings: s.items})
		}
	}
	return all, unreached(f, shares), nil
}
