package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that the kernel gives to outgoing connections: while a server is down, a client
// that dials it could otherwise be given its port and be connected to itself.
const (
	portMin   = 20_000
	portMax   = 32_000
	portTries = 200
)

// FreePorts returns n free ports of the loopback interface. No test process gets the same ports while this one lives: a
// server uses them up to seconds later, and again after a restart.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range portTries {
		if len(ports) == n {
			return ports, nil
		}
		port := portMin + rand.IntN(portMax-portMin)
		if takePort(port) == nil {
			ports = append(ports, port)
		}
	}
	return nil, errors.New("find free ports: " + strconv.Itoa(portTries) + " tries met ports in use")
}

// takePort takes a port of the loopback interface for this process if it is free.
func takePort(port int) error {
	l, err := net.Listen("tcp", Loopback(port))
	if err != nil {
		return err
	}
	return errors.Join(l.Close(), keepPort(port))
}

// kept are the sockets by whose names this process has its ports; they go with it.
var kept sync.Map

// keepPort takes a port for this process, by a name that only one socket of the machine can have.
func keepPort(port int) error {
	l, err := net.Listen("unix", fmt.Sprintf("@troupe-tests-port-%d", port))
	if err == nil {
		kept.Store(port, l)
	}
	return err
}

// OwnAddress returns a loopback address that no other program is likely to use, now or later: one of 16 million hosts
// and one of 12,000 ports.
func OwnAddress() string {
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	return net.JoinHostPort(host, strconv.Itoa(portMin+rand.IntN(portMax-portMin)))
}

// Loopback returns the address of a port on the loopback interface.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
