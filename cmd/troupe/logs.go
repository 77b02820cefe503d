package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

func (x executions) logs() *cobra.Command {
	follow, raw, times := false, false, false
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Print what an execution's process wrote", Args: exactly("ID"),
		Long: "Print what an execution's process wrote: its standard output here, its standard error on standard error. With -f, follow\n" +
			"it to its end, and show its progress, log lines and chunks too, in order; after its end that is what was stored of it: the\n" +
			"worker stores it with the end of the run, so it is lost with a worker or node that ends before. It says so then. With -t,\n" +
			"print all of that as lines, each with its time and kind. You may ask any node. On a terminal, control characters are shown\n" +
			"as ·, so that a program cannot control the terminal; --raw keeps them. In a file or a pipe every byte is unchanged.",
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow it to its end")
	cmd.Flags().BoolVarP(&times, "times", "t", false, "follow it, and print lines with times")
	cmd.Flags().BoolVar(&raw, "raw", false, "keep control characters on a terminal too, for colours")
	cmd.RunE = x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if times && x.output != "json" {
			l := &timedLog{out: x.screenOut(raw)}
			defer ended(l.out)
			return x.leaves(ctx, args[0], c.Follow(ctx, args[0], l.happening))
		}
		if follow || times {
			l := &liveLog{app: x.app, stdout: x.screenOut(raw), stderr: x.screenErr(raw)}
			defer l.end()
			return x.leaves(ctx, args[0], c.Follow(ctx, args[0], l.happening))
		}
		v, err := c.Output(ctx, args[0])
		if err != nil {
			return err
		}
		if x.output == "json" {
			return x.printJSON(v)
		}
		return x.printOutput(v, raw)
	})
	return cmd
}

func (x executions) printOutput(v api.OutputView, raw bool) error {
	stdout, stderr := []byte(v.Stdout), []byte(v.Stderr)
	if v.StdoutBase64 != nil {
		stdout = v.StdoutBase64
	}
	if v.StderrBase64 != nil {
		stderr = v.StderrBase64
	}
	out, errs := x.screenOut(raw), x.screenErr(raw)
	defer ended(out, errs)
	if _, err := out.Write(stdout); err != nil {
		return err
	}
	_, err := errs.Write(stderr)
	if v.StdoutTruncated || v.StderrTruncated {
		fmt.Fprintln(x.err, "troupe: more was written than is kept (limits.output; the last 2 MiB while it runs)")
	}
	if v.Notice != "" {
		fmt.Fprintf(x.err, "troupe: %s\n", visible(v.Notice))
	}
	return err
}

// heldMax bounds the chunks that wait for a program to end its line.
const heldMax = 16

// liveLog prints live entries. A chunk that comes in the middle of a line of the program's output waits for its end.
type liveLog struct {
	*app
	stdout, stderr io.Writer // of the program
	midline        bool
	held           []string
}

// happening prints one live entry: the program's own bytes as they are, everything else as a line on standard error.
func (a *liveLog) happening(l view.Live) error {
	if a.output == "json" {
		text, err := json.Marshal(l)
		if err == nil {
			_, err = a.out.Write(append(harmlessJSON(text), '\n'))
		}
		return err
	}
	var err error
	switch l.Kind {
	case "stdout":
		_, err = a.stdout.Write(l.Data)
		a.midline = !bytes.HasSuffix(l.Data, []byte("\n"))
		if !a.midline {
			a.flush()
		}
	case "stderr":
		_, err = a.stderr.Write(l.Data)
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

// end writes what waits.
func (a *liveLog) end() {
	ended(a.stdout, a.stderr)
	a.flush()
}

// flush prints the chunks that wait. Nobody can be told that standard output is gone.
func (a *liveLog) flush() {
	for _, chunk := range a.held {
		_, _ = fmt.Fprintln(a.out, chunk)
	}
	a.held = nil
}

// timedLog prints live entries as lines, each with its time and kind.
type timedLog struct{ out io.Writer }

func (l *timedLog) happening(e view.Live) error {
	at := "-           "
	if !e.At.IsZero() {
		at = e.At.Local().Format("15:04:05.000")
	}
	for text := range strings.Lines(l.text(&e)) {
		if _, err := fmt.Fprintf(l.out, "%s %-8s %s\n", at, visible(e.Kind), strings.TrimSuffix(text, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// text is what an entry says. Bytes of the program are as they are.
func (l *timedLog) text(e *view.Live) string {
	switch e.Kind {
	case "stdout", "stderr":
		return string(e.Data)
	case "chunk":
		return unescaped(e.Chunk)
	case "progress":
		return strings.TrimSpace(percent(e.Fraction) + " " + visible(e.Message))
	case "log":
		return visible(e.Level) + " " + visible(e.Message)
	case "status":
		return e.Status.String()
	default:
		return visible(e.Message)
	}
}

func percent(fraction *float64) string {
	if fraction == nil {
		return ""
	}
	return fmt.Sprintf(" %.0f %%", *fraction*100)
}
