package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("screenshots", "", "folder for pictures of the pages; empty: none")

// binary is the troupe under test, and scratch a folder for this process. Chromium is one for all tests, each with tabs of its own.
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
	// Tests may run as root, where Chromium has no sandbox; and /dev/shm may be small in a container.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	browser, leave := chromedp.NewContext(allocator)
	defer leave()
	if err := chromedp.Run(browser); err != nil {
		return 1, fmt.Errorf("start Chromium: %w", err)
	}
	chromium = browser
	code := m.Run()
	if stage.node != nil {
		stage.node.kill()
	}
	return code, nil
}
