package webhook

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Public as an entry of a policy allows every public address, by https, at the ports 443 and 8443.
const Public = "public"

// Policy says which addresses may be called. The zero value allows none.
type Policy struct {
	public bool
	rules  []rule
}

// rule is one entry: a name, or a range of addresses.
type rule struct {
	name   string // exact, or with a leading dot: any name that ends so
	prefix netip.Prefix
	port   int  // 0: any
	plain  bool // http too
}

// ParsePolicy reads the entries of webhooks.allow: public; a host's name, as in hooks.example or *.hooks.example; an address or a range,
// as in 10.1.2.3 or 10.1.0.0/16; each of the latter with a port at its end, and with http:// before it where calls may be plain.
func ParsePolicy(entries []string) (Policy, error) {
	var p Policy
	for _, entry := range entries {
		if entry == Public {
			p.public = true
			continue
		}
		r, err := parseRule(entry)
		if err != nil {
			return p, err
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

func parseRule(entry string) (r rule, err error) {
	rest, plain := strings.CutPrefix(entry, "http://")
	if r.plain = plain; !plain {
		rest = strings.TrimPrefix(rest, "https://")
	}
	rest, port := cutPort(rest)
	if port != "" {
		if r.port, err = portOf(port); err != nil {
			return r, fmt.Errorf("%q: %w", entry, err)
		}
	}
	bare := rest
	if inside, open := strings.CutPrefix(rest, "["); open {
		bare, _ = strings.CutSuffix(inside, "]")
		if bare == inside {
			return r, fmt.Errorf("%q: the bracket is not closed", entry)
		}
	}
	if r.prefix, err = netip.ParsePrefix(bare); err == nil {
		r.prefix = r.prefix.Masked()
		return r, nil
	}
	if a, err := netip.ParseAddr(bare); err == nil && a.Zone() == "" {
		a = a.Unmap()
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return r, nil
	}
	r.name = strings.TrimPrefix(strings.ToLower(rest), "*")
	if !hostName(strings.TrimPrefix(r.name, ".")) || strings.HasPrefix(rest, ".") || rest == "*" {
		return r, fmt.Errorf("%q: want %s, a host's name such as hooks.example or *.hooks.example, or an address or range such as 10.1.0.0/16, "+
			"each with a port such as :8443 at its end if only that is meant, and http:// before it if calls may be plain", entry, Public)
	}
	return r, nil
}

// cutPort parts HOST:PORT, where HOST may be an address of IPv6 in brackets, or without them and without a port.
func cutPort(text string) (host, port string) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.Count(text, ":") > 1 && !strings.Contains(text[:i], "]") {
		return text, ""
	}
	return text[:i], text[i+1:]
}

func portOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("the port must be 1 to 65535, got %q", text)
	}
	return n, nil
}

// hostName reports whether a text is a name as DNS has them, in lower case.
func hostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for _, label := range strings.Split(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// Target is where an address leads.
type Target struct {
	Host  string // in lower case, without brackets
	Port  int
	Plain bool // http
}

// Destination is the target's host and port, by which calls are bounded.
func (t Target) Destination() string {
	if strings.Contains(t.Host, ":") {
		return "[" + t.Host + "]:" + strconv.Itoa(t.Port)
	}
	return t.Host + ":" + strconv.Itoa(t.Port)
}

// Parse reads a webhook's address. It says what is wrong with one that could never be called.
func Parse(address string) (Target, error) {
	var t Target
	if len(address) > messages.WebhookURLMax {
		return t, fmt.Errorf("the address is %d bytes long; the limit is %d", len(address), messages.WebhookURLMax)
	}
	if strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '\\' }) {
		return t, fmt.Errorf("the address holds a space, a backslash or a control character; encode it")
	}
	u, err := url.Parse(address)
	if err != nil { // the library's error would quote the address, which may hold a token
		return t, fmt.Errorf("the address is not a URL; want one such as https://hooks.example/path")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Host == "":
		return t, fmt.Errorf("the address must begin with https:// and a host")
	case u.User != nil:
		return t, fmt.Errorf("the address holds a user or a password before its host; sign with a secret instead")
	case u.Fragment != "" || strings.Contains(address, "#"):
		return t, fmt.Errorf("the address has a fragment (#…), which no server gets; leave it out")
	}
	return targetOf(u)
}

func targetOf(u *url.URL) (t Target, err error) {
	t = Target{Host: HostOf(u.Hostname()), Port: 443, Plain: u.Scheme == "http"}
	if t.Plain {
		t.Port = 80
	}
	if u.Port() != "" || strings.HasSuffix(u.Host, ":") {
		if t.Port, err = portOf(u.Port()); err != nil {
			return t, err
		}
	}
	a, err := netip.ParseAddr(t.Host)
	switch {
	case err == nil && a.Zone() != "":
		return t, fmt.Errorf("the address has a zone (%%…), which means something on one machine only")
	case err == nil:
		t.Host = a.Unmap().String()
	case strings.HasPrefix(u.Host, "[") || !hostName(t.Host):
		return t, fmt.Errorf("the address has no host that can be looked up")
	case numeric(t.Host):
		return t, fmt.Errorf("the host is a number in a form that not everybody reads alike; write it as in 192.0.2.1")
	}
	return t, nil
}

// numeric reports whether the last label of a name could be read as a part of an address, as in 127.1 or 0x7f000001.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// Check says why the policy forbids a target, or nil. Of a name it judges what can be said before it is looked up.
func (p Policy) Check(t Target) error {
	if a, err := netip.ParseAddr(t.Host); err == nil {
		return p.Dial(t, a)
	}
	if t.Host == "localhost" || strings.HasSuffix(t.Host, ".localhost") {
		return p.Dial(t, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	if p.public && !t.Plain && publicPort(t.Port) {
		return nil
	}
	for _, r := range p.rules {
		if r.suits(t) && (r.prefix.IsValid() || r.named(t.Host)) {
			return nil
		}
	}
	return refused(t)
}

// Dial says why a target may not be called at the address that its name has led to, or nil. It is asked at each connection, so that a
// name cannot lead elsewhere than it did when it was checked.
func (p Policy) Dial(t Target, a netip.Addr) error {
	a = a.Unmap()
	if p.public && !t.Plain && publicPort(t.Port) && isPublic(a) {
		return nil
	}
	for _, r := range p.rules {
		if !r.suits(t) {
			continue
		}
		if r.prefix.IsValid() && r.prefix.Contains(a) || !r.prefix.IsValid() && r.named(t.Host) && nameable(a) {
			return nil
		}
	}
	return refused(t)
}

// HostOf is a host as a Target has it: names are the same in capitals and with a dot at their end.
func HostOf(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

func publicPort(port int) bool { return port == 443 || port == 8443 }

// refused does not say which address a name led to: whoever submits need not learn what the node's network looks like.
func refused(t Target) error {
	how := "by https"
	if t.Plain {
		how = "by plain http"
	}
	return fmt.Errorf("this node may not call %s %s: its address is not one that webhooks.allow lists", t.Destination(), how)
}

func (r rule) suits(t Target) bool { return (r.plain || !t.Plain) && (r.port == 0 || r.port == t.Port) }

func (r rule) named(host string) bool {
	return host == r.name || strings.HasPrefix(r.name, ".") && strings.HasSuffix(host, r.name) && len(host) > len(r.name)
}

// special are ranges that are not of the public network, or lead into another one. What is in none of them and is global
// unicast is public. Sources: the special-purpose registries of IANA (RFC 6890 and its updates).
var special = func() (out []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}()

// globalUnicast is what IANA has given out of IPv6. Everything else is special.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// isPublic reports whether an address is one of the public network.
func isPublic(a netip.Addr) bool {
	if !a.IsValid() || a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// nameable reports whether a name that is allowed may lead to the address: not to those of a link, where clouds answer with
// credentials, nor to groups or to no host. Those must be listed as addresses.
func nameable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !metadata.Contains(a) &&
		!reserved.Contains(a) && !thisNetwork.Contains(a)
}

// metadata is the range in which clouds serve their credentials by IPv6. The others belong to no host.
var (
	metadata    = netip.MustParsePrefix("fd00:ec2::/32")
	reserved    = netip.MustParsePrefix("240.0.0.0/4")
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
)

// Shown is an address as people see it: its query, which may hold a token, is hidden.
func Shown(address string) string {
	head, _, asks := strings.Cut(address, "?")
	if asks {
		return head + "?…"
	}
	return head
}
