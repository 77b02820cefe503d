package node

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// A duration in a JSON log has its unit, in a pair, in a bound pair and below a name; other values stay as they are.
func TestDurationsAreLoggedWithTheirUnit(t *testing.T) {
	t.Parallel()
	for level, log := range map[string]func(hclog.Logger, ...any){
		"trace": func(l hclog.Logger, a ...any) { l.Trace("m", a...) },
		"debug": func(l hclog.Logger, a ...any) { l.Debug("m", a...) },
		"info":  func(l hclog.Logger, a ...any) { l.Info("m", a...) },
		"warn":  func(l hclog.Logger, a ...any) { l.Warn("m", a...) },
		"error": func(l hclog.Logger, a ...any) { l.Error("m", a...) },
	} {
		var text bytes.Buffer
		bare := hclog.New(&hclog.LoggerOptions{JSONFormat: true, Output: &text, Level: hclog.Trace})
		logger := Config{Logger: bare}.withDefaults().Logger.With("limit", 30*time.Second).Named("pool").ResetNamed("node")
		args := []any{"age", 1500 * time.Millisecond, "count", 3}
		log(logger, args...)
		var line map[string]any
		require.NoError(t, json.Unmarshal(text.Bytes(), &line), text.String())
		require.Equal(t, level, line["@level"])
		require.Equal(t, "1.5s", line["age"])
		require.Equal(t, "30s", line["limit"])
		require.InDelta(t, 3, line["count"], 0)
		require.Equal(t, 1500*time.Millisecond, args[1], "the caller's pairs are its own")
	}
}
