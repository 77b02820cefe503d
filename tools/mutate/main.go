// Command mutate makes small wrong changes, one at a time, and reports which of them no test notices.
//
//	go -C tools run ./mutate -seed 1 -out docs/lab/mutations.md \
//	    ./rules/roster=40 ./rules/membership=25 ./store/postgres=20
//
// Each argument names a package of the module above, and how many mutations to try there. A mutation changes one place of one
// file: it turns a condition around, moves a comparison by one, swaps && and ||, adds one to a number, leaves a statement
// out, or leaves one AND out of an SQL statement. The working tree stays as it is: the changed file reaches the compiler by
// the -overlay flag of go test. The package's own tests run against it, under a time limit that counts as noticed.
// What does not compile is replaced by another mutation. The seed decides which places are tried.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 1, "which places are tried")
	root := flag.String("root", "..", "the module's folder")
	out := flag.String("out", "", "the report's file, relative to the module's folder; empty: standard output")
	limit := flag.Duration("limit", 3*time.Minute, "how long one package's tests may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *out, *seed, *limit, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out string, seed uint64, limit time.Duration, args []string) error {
	if len(args) == 0 {
		return errors.New("name the packages to change, each with a number: ./rules/roster=40")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := runner{root: root, dir: dir, limit: limit}
	var all []trial
	for _, arg := range args {
		pkg, text, _ := strings.Cut(arg, "=")
		count, err := strconv.Atoi(text)
		if err != nil || count <= 0 {
			return fmt.Errorf("%q: want a package and a number of mutations, as in ./rules/roster=40", arg)
		}
		trials, err := r.pack(ctx, pkg, count, seed)
		all = append(all, trials...)
		if err != nil {
			return errors.Join(err, write(root, out, seed, args, all)) // what was tried so far counts
		}
	}
	return write(root, out, seed, args, all)
}

// trial is one mutation and what became of it.
type trial struct {
	site
	pkg     string
	verdict verdict
	took    time.Duration
}

type verdict string

const (
	noticed  verdict = "noticed"
	survived verdict = "survived"
	invalid  verdict = "does not compile"
)

type runner struct {
	root, dir string
	limit     time.Duration
}

// pack tries so many mutations of one package. Its tests must pass as it stands.
func (r *runner) pack(ctx context.Context, pkg string, count int, seed uint64) ([]trial, error) {
	sites, err := sitesOf(filepath.Join(r.root, pkg))
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if v, text := r.test(ctx, pkg, ""); v != survived {
		return nil, fmt.Errorf("%s: its tests do not pass without a mutation:\n%s", pkg, text)
	}
	fmt.Fprintf(os.Stderr, "%s: %d places, its tests take %s\n", pkg, len(sites), time.Since(began).Round(time.Second))
	random := rand.New(rand.NewPCG(seed, uint64(len(sites))))
	random.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
	var trials []trial
	for _, s := range sites {
		if len(trials) == count {
			break
		}
		if err := ctx.Err(); err != nil {
			return trials, err
		}
		t := trial{site: s, pkg: pkg}
		began := time.Now()
		if t.verdict, err = r.try(ctx, pkg, s); err != nil {
			return trials, err
		}
		if t.verdict == invalid {
			continue
		}
		t.took = time.Since(began)
		fmt.Fprintf(os.Stderr, "%-9s %5.1fs %s:%d %s\n", t.verdict, t.took.Seconds(), s.file, s.line, s.what)
		trials = append(trials, t)
	}
	return trials, nil
}

// try runs the package's tests with one place changed.
func (r *runner) try(ctx context.Context, pkg string, s site) (verdict, error) {
	changed := filepath.Join(r.dir, "changed.go")
	if err := os.WriteFile(changed, s.apply(), 0o644); err != nil {
		return "", err
	}
	overlay := filepath.Join(r.dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {s.path: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return "", err
	}
	v, _ := r.test(ctx, pkg, overlay)
	return v, ctx.Err()
}

func (r *runner) test(ctx context.Context, pkg, overlay string) (verdict, string) {
	args := []string{"test", "-count=1", "-failfast", "-timeout=" + r.limit.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	out, err := r.command(ctx, append(args, pkg)...).CombinedOutput()
	switch {
	case err == nil:
		return survived, ""
	case strings.Contains(string(out), "[build failed]"):
		return invalid, string(out)
	}
	return noticed, string(out)
}

func (r *runner) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = r.root
	return c
}
