// Command room makes a room for nodes that a person tries: an empty database and a prefix for names on a broker. It
// prints them as settings of a node, one on each line, and an empty line after them, and waits. When its standard input
// ends, it removes everything that the nodes made, and the room. tools/cluster runs it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe/test/servers"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "room: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	// What a terminal sends is for the script: it first ends its nodes.
	signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	room, err := servers.MakeRoom("cluster")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%s\n\n", strings.Join(room.Settings(), "\n")) // whoever does not listen has ended, and the input with it
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
	}()
	<-ctx.Done()
	return room.Close()
}
