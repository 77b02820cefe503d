package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("screenshots", "", "folder for pictures of the pages; empty: none")

// binary is the troupe under test, and scratch a folder for this process. Chromium is one for all tests but those that run apart, each
// with tabs of its own.
var (
	binary   string
	scratch  string
	chromium context.Context
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "troupe-browser-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch, binary = dir, os.Getenv("TROUPE_E2E_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "troupe")
		if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/troupe").CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build troupe: %w\n%s", err, out)
		}
	}
	browser, leave, err := startChromium(filepath.Join(dir, "profile"))
	if err != nil {
		return 1, err
	}
	defer leave()
	chromium = browser
	code := m.Run()
	if stage.node != nil {
		stage.node.kill()
	}
	return code, nil
}

// startChromium starts a Chromium. Tests may run as root, where it has no sandbox; and /dev/shm may be small in a container.
func startChromium(profile string) (context.Context, func(), error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	browser, leave := chromedp.NewContext(allocator)
	both := func() { leave(); end() }
	if err := chromedp.Run(browser); err != nil {
		both()
		return nil, nil, fmt.Errorf("start Chromium: %w", err)
	}
	return browser, both, nil
}

// browsers has the browsers of tests that run apart, by the test's name.
var browsers sync.Map

// apart lets a test run beside others, with a Chromium of its own: a tab behind another one may draw nothing.
func apart(t *testing.T) {
	t.Helper()
	t.Parallel()
	browser, leave, err := startChromium(filepath.Join(scratch, "profile-"+t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	browsers.Store(t.Name(), browser)
}

// browserOf is the browser of a test or of its part.
func browserOf(t *testing.T) context.Context {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if own, ok := browsers.Load(name); ok {
		return own.(context.Context)
	}
	return chromium
}
