package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/troupe-run/troupe/store"
)

// loginKeysFor is how long the keys are used before they are read again, so that a rotation reaches every node.
const loginKeysFor = time.Minute

// logins has the keys of the console's logins: the secrets of the cluster, or, of a node on the embedded store, a file of its data folder.
type logins struct {
	*base
	adapter func() store.Store // nil while the node waits for it

	mu   sync.Mutex
	keys [][]byte
	read time.Time
}

// current returns the keys, the one for new logins first. If they cannot be read, those of before hold.
func (l *logins) current(ctx context.Context) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.keys) > 0 && time.Since(l.read) < loginKeysFor {
		return l.keys
	}
	keys, err := l.load(ctx)
	if err != nil {
		l.logger.Warn("keys of the console's logins not read; those of before hold", "error", err)
	} else {
		l.keys = keys
	}
	if len(l.keys) > 0 {
		l.read = time.Now()
	}
	return l.keys
}

func (l *logins) load(ctx context.Context) ([][]byte, error) {
	if !l.cfg.full() {
		key, err := keyFile(filepath.Join(l.cfg.Data, "console.key"))
		return [][]byte{key}, err
	}
	secrets, ok := l.adapter().(store.ClusterSecrets)
	if !ok {
		return nil, errors.New("the store is not open yet, or keeps no secret of its nodes")
	}
	list, err := secrets.ClusterSecrets(ctx)
	keys := make([][]byte, 0, len(list))
	for i := range list {
		keys = append(keys, list[i].Key.Reveal())
	}
	return keys, err
}

// keyFile reads a key, and makes it first where there is none. The folder is this node's alone.
func keyFile(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, store.SecretSize)
		rand.Read(key) // never fails: the program ends if the system has no random bits
		err = os.WriteFile(path, key, 0o600)
	}
	if err == nil && len(key) != store.SecretSize {
		err = fmt.Errorf("%s has %d bytes, want %d; remove it, and everybody logs in again", path, len(key), store.SecretSize)
	}
	return key, err
}
