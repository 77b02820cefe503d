package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-run/troupe/filelock"
	"github.com/troupe-run/troupe/packs"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/sdk"
)

// dataFolder is the folder that a node keeps its files in.
type dataFolder struct {
	*base
	lock *filelock.Lock // in the full mode
}

// prepare makes the data folder, for this user alone. It takes from a group what that has too much of a folder that is there, and refuses
// one of which every user has too much. In the full mode it also locks the folder, because the ledger of processes is one node's alone.
// The embedded store has a lock of its own.
func (d *dataFolder) prepare(context.Context) error {
	if err := os.MkdirAll(d.cfg.Data, 0o700); err != nil {
		return fmt.Errorf("data folder %s: %w; choose another with --data", d.cfg.Data, err)
	}
	mended, err := mendFolder(d.cfg.Data)
	if mended > 0 {
		d.logger.Warn("data folder was open to its group: taken from it", "folder", d.cfg.Data, "entries", mended)
	}
	if err != nil {
		return err
	}
	if !d.cfg.full() {
		return nil
	}
	d.lock, err = lockFolder(d.cfg.Data)
	return err
}

// lockFolder takes the lock that says that this process alone uses the folder.
func lockFolder(folder string) (*filelock.Lock, error) {
	l, err := filelock.Take(filepath.Join(folder, "node.lock"))
	var held *filelock.HeldError
	switch {
	case errors.As(err, &held):
		return nil, fmt.Errorf("data folder %s: in use by another node (process %s holds its lock): stop that node, or give this one another --data folder",
			folder, held.Holder)
	case err != nil:
		return nil, fmt.Errorf("data folder %s: %w; choose another with --data", folder, err)
	}
	return l, nil
}

// materialize writes what the binary brings along.
func (d *dataFolder) materialize(context.Context) error {
	return errors.Join(
		wrap("write the SDKs", sdk.Materialize(d.cfg.Data)),
		wrap("write the built-in packs", packs.Materialize(d.cfg.Data)),
	)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// endEarlier ends what an earlier boot left running, before anything of that boot is given back.
func (d *dataFolder) endEarlier(context.Context) error {
	if err := process.BecomeSubreaper(); err != nil {
		d.logger.Warn("cannot adopt orphans of a killed guardian", "error", err)
	}
	ended, err := process.EndSurvivors(d.cfg.ledgerPath())
	if err != nil {
		return fmt.Errorf("end processes of an earlier boot: %w", err)
	}
	if ended > 0 {
		d.logger.Warn("processes of an earlier boot ended", "count", ended)
	}
	if err := clearSecrets(d.cfg.Data); err != nil {
		return fmt.Errorf("remove files of secrets of an earlier boot: %w", err)
	}
	return nil
}

// unlock gives the folder up.
func (d *dataFolder) unlock() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}
