package debug

import (
	"crypto/sha256"
	_ "embed" // parts of the page
	"encoding/base64"
	"net/http"
	"strings"
)

// The parts of the page. They become one answer, because the node serves no files.
var (
	//go:embed page/page.html
	pageFrame string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/view.js
	pageView string
	//go:embed page/page.js
	pageScript string
)

// page shows the actors of all nodes in a browser. pagePolicy lets it run only its own script and call only its own
// node.
var page, pagePolicy = assemble()

func assemble() (text, policy string) {
	script := pageView + pageScript
	text = strings.NewReplacer("{{style}}", pageStyle, "{{script}}", script).Replace(pageFrame)
	return text, "default-src 'none'; connect-src 'self'; script-src 'sha256-" + digest(script) + "'; style-src 'sha256-" +
		digest(pageStyle) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// showPage answers with the page. The page contains no data of the node. It requests the data, with a token from its
// user if the node needs one.
func showPage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write([]byte(page))
}
