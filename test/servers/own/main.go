// Command own runs a command beside a RabbitMQ that only this command uses, named by TROUPE_TEST_RABBITMQ, and ends as the
// command does.
//
//	go run ./test/servers/own go test ./...
//
// A server that lives on between runs does not stay as it was: after some thousands of quorum queues that tests made and deleted,
// one of 3.10 declared no more of them (Exception 541). Where TROUPE_TEST_RABBITMQ names a server already, or where none can be
// started, the command runs with what is there.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/troupe-run/troupe/test/servers"
)

// port is always the same where it is free: go test repeats a result only while the environment stays as it was.
const port = 19672

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "own: name the command to run, such as: go run ./test/servers/own go test ./...")
		os.Exit(2)
	}
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "own: %v\n", err)
	}
	os.Exit(status)
}

// run runs the command and returns its status. A server that does not end in order is an error, too.
func run(command []string) (status int, err error) {
	// A terminal sends its signals to the command as well, and the server ends after it.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if os.Getenv(servers.RabbitEnv) == "" {
		server, err := servers.StartRabbitMQ(servers.RabbitMQOptions{Port: port})
		if err != nil {
			fmt.Fprintf(os.Stderr, "own: %v; the command runs without a RabbitMQ of its own\n", err)
		} else {
			defer func() {
				if closed := server.Close(); closed != nil {
					status, err = max(status, 1), errors.Join(err, closed)
				}
			}()
			cmd.Env = append(os.Environ(), servers.RabbitEnv+"="+server.URL)
		}
	}
	return statusOf(cmd.Run())
}

// statusOf is the exit status for how a command ended, 1 if it has none.
func statusOf(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
