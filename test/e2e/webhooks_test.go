package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// hookKey is the key of the secret billing, and hookSecret the secret.
var (
	hookKey    = []byte("0123456789abcdef0123456789abcdef")
	hookSecret = "whsec_" + base64.StdEncoding.EncodeToString(hookKey)
)

// hookConfig lets a node call receivers on loopback.
const hookConfig = `
webhooks:
  allow: ["http://127.0.0.1"]
  secrets: [billing=env:HOOK_SECRET]
  retry_base: 0.1
`

func hookOptions(flags ...string) options {
	return options{config: hookConfig, env: []string{"HOOK_SECRET=" + hookSecret}, flags: flags}
}

// receiver is the server of somebody who is told of outcomes.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []hookCall
}

type hookCall struct {
	id, timestamp, signature string
	body                     []byte
	notice                   object
}

// receive answers the n-th call, from 1, as answer says.
func receive(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *receiver {
	v := &receiver{}
	v.Server = httptest.NewServer(v.handler(answer))
	t.Cleanup(v.Close)
	return v
}

func (v *receiver) handler(answer func(w http.ResponseWriter, r *http.Request, n int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := hookCall{id: r.Header.Get("webhook-id"), timestamp: r.Header.Get("webhook-timestamp"), signature: r.Header.Get("webhook-signature"), body: body}
		_ = json.Unmarshal(body, &c.notice)
		v.mu.Lock()
		v.calls = append(v.calls, c)
		n := len(v.calls)
		v.mu.Unlock()
		if answer != nil {
			answer(w, r, n)
		}
	})
}

func (v *receiver) got() []hookCall {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]hookCall(nil), v.calls...)
}

// verified checks a call's signature as a receiver does.
func verified(t *testing.T, c hookCall) {
	t.Helper()
	mac := hmac.New(sha256.New, hookKey)
	fmt.Fprintf(mac, "%s.%s.%s", c.id, c.timestamp, c.body)
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), c.signature)
	at, err := strconv.ParseInt(c.timestamp, 10, 64)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), time.Unix(at, 0), 5*time.Minute)
}

// hooked waits until the webhook of an execution is in a state, and returns it.
func (n *node) hooked(t *testing.T, id, state string) object {
	t.Helper()
	var hook object
	await(t, "the webhook of "+id+" is "+state, func() bool {
		hook, _ = n.get(t, "/api/v1/executions/"+id)["webhook"].(map[string]any)
		return hook.text("state") == state
	})
	return hook
}

// onBothStores runs a test on the embedded store and on Postgres.
func onBothStores(t *testing.T, test func(t *testing.T, o options)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, hookOptions())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, hookOptions("--store", servers.Postgres(t)))
	})
}

// TestAnOutcomeIsToldByHTTP: the receiver gets the outcome with a signature that it can verify, once, and the execution says so.
func TestAnOutcomeIsToldByHTTP(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, o options) {
		n := start(t, o)
		v := receive(t, nil)
		e := n.submit(t, "core.echo", object{"message": "hi"}, object{"labels": object{"order": "7"},
			"webhook": object{"url": v.URL + "/done?token=hunter2", "on": []string{"completed"}, "secret": "billing"}})
		hook := n.hooked(t, e.text("id"), "told")
		require.Equal(t, "1", hook.text("tries"))
		require.Equal(t, "200", hook.text("code"))
		require.Equal(t, "billing", hook.text("secret"))
		require.Equal(t, v.URL+"/done?…", hook.text("url"), "the query is not shown")
		calls := v.got()
		require.Len(t, calls, 1)
		verified(t, calls[0])
		require.Equal(t, e.text("id"), calls[0].id)
		require.Equal(t, e.text("id"), calls[0].notice.text("execution_id"))
		require.Equal(t, "ExecutionCompleted", calls[0].notice.text("type"))
		require.Equal(t, "completed", calls[0].notice.text("status"))
		require.Equal(t, "core.echo", calls[0].notice.text("action"))
		require.Equal(t, "7", calls[0].notice.text("labels", "order"))
		require.NotEmpty(t, calls[0].notice["result"])
		require.NotContains(t, calls[0].notice, "parameters")

		other := n.runs(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": v.URL, "on": []string{"failed"}}})
		n.hooked(t, other.text("id"), "passed")
		require.Len(t, v.got(), 1, "that outcome was not asked for")
		require.Contains(t, n.prints(t, "get", e.text("id")), "told, tries: 1")
		n.hidesTheSecret(t, e.text("id"))
	})
}

// hidesTheSecret looks for the secret wherever a node shows or stores something.
func (n *node) hidesTheSecret(t *testing.T, id string) {
	t.Helper()
	shown := n.prints(t, "get", id, "-o", "json") + n.prints(t, "webhooks", "-o", "json") + n.log.String()
	_, metrics := n.raw(t, "GET", "/metrics", nil)
	shown += string(metrics)
	for _, secret := range []string{hookSecret, hookSecret[6:], string(hookKey)} {
		require.NotContains(t, shown, secret)
		require.NoError(t, filepath.WalkDir(n.data, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // a file of a worker that has ended meanwhile
			}
			text, err := os.ReadFile(path)
			if err == nil && bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds the secret", path)
			}
			return nil
		}))
	}
	require.NotContains(t, n.log.String(), "hunter2", "nor is the address's token logged")
}

// TestAReceiverThatFailsIsCalledAgain: with the same id each time, until it takes the call or says that it is gone; and then by hand.
func TestAReceiverThatFailsIsCalledAgain(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, o options) {
		n := start(t, o)
		flaky := receive(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n < 3 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		e := n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": flaky.URL, "secret": "billing"}})
		require.Equal(t, "3", n.hooked(t, e.text("id"), "told").text("tries"))
		calls := flaky.got()
		require.Len(t, calls, 3)
		for _, c := range calls {
			verified(t, c)
			require.Equal(t, e.text("id"), c.id)
			require.Equal(t, calls[0].body, c.body)
		}

		gone := receive(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n == 1 {
				w.WriteHeader(http.StatusGone)
			}
		})
		e = n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": gone.URL}})
		id := e.text("id")
		require.Contains(t, n.hooked(t, id, "given_up").text("error"), "410 Gone")
		require.Contains(t, n.prints(t, "webhooks"), id)
		require.Contains(t, n.prints(t, "webhooks", "retry", id), "due")
		n.hooked(t, id, "told")
		require.Empty(t, gone.got()[0].signature, "no secret was named")
		require.NotContains(t, n.prints(t, "webhooks"), id)

		trap := receive(t, nil)
		moved := receive(t, func(w http.ResponseWriter, r *http.Request, _ int) { http.Redirect(w, r, trap.URL, http.StatusFound) })
		e = n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": moved.URL}})
		await(t, "a redirect is an error", func() bool {
			return strings.Contains(n.hooked(t, e.text("id"), "due").text("error"), "redirects are not followed")
		})
		require.Empty(t, trap.got())
	})
}

// TestAReceiverThatIsDownIsToldLater: it comes up on the same address, and is told.
func TestAReceiverThatIsDownIsToldLater(t *testing.T) {
	t.Parallel()
	n := start(t, hookOptions())
	held, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := held.Addr().String()
	require.NoError(t, held.Close())
	e := n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": "http://" + address, "secret": "billing"}})
	await(t, "it is tried in vain", func() bool {
		return n.hooked(t, e.text("id"), "due").text("error") == "no answer: the connection was refused"
	})
	v := &receiver{}
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	v.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: v.handler(nil)}}
	v.Start()
	t.Cleanup(v.Close)
	n.hooked(t, e.text("id"), "told")
	verified(t, v.got()[0])
}

// TestAReceiverThatHangsHoldsUpNobody: executions go on, and another receiver is told of all of its outcomes meanwhile.
func TestAReceiverThatHangsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, o options) {
		n := start(t, o)
		release := make(chan struct{})
		slow := receive(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		t.Cleanup(func() { close(release) })
		good := receive(t, nil)
		const count = 40
		var batch []object
		for _, url := range []string{slow.URL, good.URL} {
			for range count {
				batch = append(batch, object{"action_ref": "core.echo", "parameters": object{"message": "hi"}, "webhook": object{"url": url}})
			}
		}
		status, answer := n.call(t, "POST", "/api/v1/executions/batch", object{"executions": batch})
		require.Equal(t, http.StatusCreated, status, "%v", answer)
		await(t, "the good one is told of all", func() bool { return len(good.got()) == count })
		require.Len(t, slow.got(), 1, "one that never answered well has one call at a time")
		for _, e := range answer.list("executions") {
			require.Equal(t, "completed", n.finish(t, e.text("id")).text("status"))
		}
		due := n.get(t, "/api/v1/webhooks?state=due&limit=1000").list("webhooks")
		require.Len(t, due, count)
	})
}

// TestANodeThatIsKilledLosesNoWebhook: once while a call is under way, and once before one can begin.
func TestANodeThatIsKilledLosesNoWebhook(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, o options) {
		n := start(t, o)
		v := receive(t, func(_ http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				<-r.Context().Done()
			}
		})
		var ids []string
		for range 5 {
			ids = append(ids, n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": v.URL, "secret": "billing"}}).text("id"))
		}
		for _, id := range ids {
			n.finish(t, id)
		}
		await(t, "a call is under way", func() bool { return len(v.got()) == 1 })
		n.kill()
		n = n.again(t)
		told := map[string]int{}
		for _, id := range ids {
			n.hooked(t, id, "told")
		}
		for _, c := range v.got() {
			verified(t, c)
			told[c.id]++
		}
		require.Len(t, told, len(ids))
		require.Len(t, v.got(), len(ids)+1, "the call that broke off is repeated, with the same id")
	})
}

// TestWebhooksThatANodeRefuses: a submission is refused with what is wrong, before anything is stored.
func TestWebhooksThatANodeRefuses(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for url, want := range map[string]string{
		"https://10.0.0.1/":           "webhooks.allow",
		"https://169.254.169.254/":    "webhooks.allow",
		"https://localhost/":          "webhooks.allow",
		"https://[::1]/":              "webhooks.allow",
		"https://[::ffff:127.0.0.1]/": "webhooks.allow",
		"https://192.168.1.1:8443/":   "webhooks.allow",
		"http://hooks.example/":       "by plain http",
		"https://hooks.example:25/":   "webhooks.allow",
		"https://2130706433/":         "a number",
		"https://u:p@hooks.example/":  "user or a password",
		"gopher://hooks.example/":     "must begin with https://",
	} {
		status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.echo", "parameters": object{"message": "x"}, "webhook": object{"url": url}})
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, status, "%s: %v", url, answer)
		require.Contains(t, answer.text("error", "message"), want, url)
	}
	status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.echo", "parameters": object{"message": "x"},
		"webhook": object{"url": "https://hooks.example/", "secret": "billing"}})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, answer.text("error", "message"), `no secret "billing"`)
	r := n.troupe(t, "submit", "core.echo", "message=hi", "--webhook-url", "https://10.0.0.1/")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "webhooks.allow")
}

// TestTheNodesOwnWebhookAndTheActions: where a submission says nothing, its action's is told, and else the node's; none: nobody.
func TestTheNodesOwnWebhookAndTheActions(t *testing.T) {
	t.Parallel()
	own, action := receive(t, nil), receive(t, nil)
	folder := filepath.Join(t.TempDir(), "told")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "actions"), 0o755))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	write("pack.yaml", "name: told\nversion: 1.0.0\n")
	write("actions/say.yaml", "name: say\nruntime: shell\ncommand: [echo, hi]\nwebhook: {url: '"+action.URL+"', on: [completed], secret: billing}\n")
	write("actions/hush.yaml", "name: hush\nruntime: shell\ncommand: [echo, hi]\nwebhook: {url: none}\n")
	o := hookOptions()
	o.config += "  url: " + own.URL + "\n"
	o.packs = []string{folder}
	n := start(t, o)
	said, echoed := n.submit(t, "told.say", nil).text("id"), n.submit(t, "core.echo", object{"message": "x"}).text("id")
	n.hooked(t, said, "told")
	n.hooked(t, echoed, "told")
	require.NotContains(t, n.runs(t, "told.hush", nil), "webhook")
	require.NotContains(t, n.runs(t, "core.echo", object{"message": "x"}, object{"webhook": object{"url": "none"}}), "webhook")
	require.Len(t, own.got(), 1)
	require.Len(t, action.got(), 1)
	require.Equal(t, echoed, own.got()[0].id)
	require.Equal(t, said, action.got()[0].id)
	verified(t, action.got()[0])
}

// TestTheReceiverOfThePage runs the receiver of docs/webhooks.md, which verifies what a node sends and refuses what it did not.
func TestTheReceiverOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/webhooks.md")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(page), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	held, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(held.Addr().String())
	require.NoError(t, err)
	require.NoError(t, held.Close())
	out := &logBook{}
	cmd := exec.Command("python3", "-c", program)
	cmd.Env = []string{"PATH=" + searchPath, "HOOK_SECRET=" + hookSecret, "PORT=" + port}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	n := start(t, hookOptions())
	url := "http://127.0.0.1:" + port
	signed := n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": url, "secret": "billing"}}).text("id")
	require.Equal(t, "204", n.hooked(t, signed, "told").text("code"))
	require.Contains(t, out.String(), signed+" completed")
	unsigned := n.submit(t, "core.echo", object{"message": "hi"}, object{"webhook": object{"url": url}}).text("id")
	await(t, "a call without a signature is refused", func() bool { return n.hooked(t, unsigned, "due").text("code") == "401" })
	require.NotContains(t, out.String(), unsigned+" completed")
}
