package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/api"
)

func (a *app) logs() *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print what an execution's process wrote", Args: exactly("ID"),
		Long: "Print what an execution's process wrote: its standard output here, its standard error on standard error. With -f, go on\n" +
			"until it ends, and show its progress, log lines and chunks too. Any node does it, wherever it runs.",
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until it ends")
	cmd.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if follow {
			l := &liveLog{app: a}
			defer l.flush()
			return c.Follow(ctx, args[0], l.happening)
		}
		v, err := c.Output(ctx, args[0])
		if err != nil {
			return err
		}
		if a.output == "json" {
			return a.printJSON(v)
		}
		return a.printOutput(v)
	})
	return cmd
}

func (a *app) printOutput(v api.OutputView) error {
	stdout, stderr := []byte(v.Stdout), []byte(v.Stderr)
	if v.StdoutBase64 != nil {
		stdout = v.StdoutBase64
	}
	if v.StderrBase64 != nil {
		stderr = v.StderrBase64
	}
	if _, err := a.out.Write(stdout); err != nil {
		return err
	}
	_, err := a.err.Write(stderr)
	if v.StdoutTruncated || v.StderrTruncated {
		fmt.Fprintln(a.err, "troupe: more was written than is kept (limits.output)")
	}
	return err
}

// heldMax bounds the chunks that wait for a program to end its line.
const heldMax = 16

// liveLog prints live entries. A chunk that comes in the middle of a line of the program's output waits for its end.
type liveLog struct {
	*app
	midline bool
	held    []string
}

// happening prints one live entry: the program's own bytes as they are, everything else as a line on standard error.
func (a *liveLog) happening(l api.Live) error {
	if a.output == "json" {
		return json.NewEncoder(a.out).Encode(l)
	}
	var err error
	switch l.Kind {
	case "stdout":
		_, err = a.out.Write(l.Data)
		a.midline = !bytes.HasSuffix(l.Data, []byte("\n"))
		if !a.midline {
			a.flush()
		}
	case "stderr":
		_, err = a.err.Write(l.Data)
	case "chunk":
		if a.held = append(a.held, unescaped(l.Chunk)); !a.midline || len(a.held) > heldMax {
			a.flush()
		}
	case "progress":
		_, err = fmt.Fprintf(a.err, "progress%s %s\n", percent(l.Fraction), visible(l.Message))
	case "log":
		_, err = fmt.Fprintf(a.err, "%s %s\n", visible(l.Level), visible(l.Message))
	case "notice":
		_, err = fmt.Fprintf(a.err, "troupe: %s\n", visible(l.Message))
	case "status":
		if l.Status != messages.StatusInvalid {
			_, err = fmt.Fprintf(a.err, "%s\n", l.Status)
		}
	}
	return err
}

// flush prints the chunks that wait. Nobody can be told that standard output is gone.
func (a *liveLog) flush() {
	for _, chunk := range a.held {
		_, _ = fmt.Fprintln(a.out, chunk)
	}
	a.held = nil
}

func percent(fraction *float64) string {
	if fraction == nil {
		return ""
	}
	return fmt.Sprintf(" %.0f %%", *fraction*100)
}
