package webhook

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func policy(t require.TestingT, entries ...string) Policy {
	p, err := ParsePolicy(entries)
	require.NoError(t, err, "%v", entries)
	return p
}

func TestAddressesThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                                           "must begin with https://",
		"hooks.example/x":                            "must begin with https://",
		"ftp://hooks.example/":                       "must begin with https://",
		"https:hooks.example":                        "must begin with https://",
		"https:///path":                              "must begin with https://",
		"file:///etc/passwd":                         "must begin with https://",
		"https://u@hooks.example/":                   "user or a password",
		"https://u:p@hooks.example/":                 "user or a password",
		"https://hooks.example/#x":                   "fragment",
		"https://hooks.example/#":                    "fragment",
		"https://hooks.example/a b":                  "a space",
		"https://hooks.example\\@10.0.0.1/":          "backslash",
		"https://hooks.example/\r\nHost: x":          "control character",
		"https://hooks.example:0/":                   "port",
		"https://hooks.example:/":                    "port",
		"https://hooks.example:65536/":               "port",
		"https://hooks.example:x/":                   "not a URL",
		"https://[fe80::1%25eth0]/":                  "zone",
		"https://[hooks.example]/":                   "",
		"https://2130706433/":                        "a number",
		"https://127.1/":                             "a number",
		"https://0x7f.1/":                            "a number",
		"https://0x7f000001/":                        "a number",
		"https://hooks..example/":                    "looked up",
		"https://hö.example/":                        "looked up",
		"https://" + strings.Repeat("x", 2100) + "/": "the limit is 2048",
	} {
		_, err := Parse(address)
		require.ErrorContains(t, err, want, address)
		if strings.Contains(address, "p@") {
			require.NotContains(t, err.Error(), "p@", "no password is shown")
		}
	}
	for address, want := range map[string]Target{
		"https://Hooks.Example./x?y=1":   {"hooks.example", 443, false},
		"http://hooks.example":           {"hooks.example", 80, true},
		"https://192.0.2.1:8443/":        {"192.0.2.1", 8443, false},
		"https://[2001:DB8::1]:444/":     {"2001:db8::1", 444, false},
		"https://[::ffff:10.0.0.1]/":     {"10.0.0.1", 443, false},
		"https://a_b.internal/%20?t=%00": {"a_b.internal", 443, false},
	} {
		got, err := Parse(address)
		require.NoError(t, err, address)
		require.Equal(t, want, got)
	}
	require.Equal(t, "[2001:db8::1]:444", Target{Host: "2001:db8::1", Port: 444}.Destination())
}

func TestPoliciesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "*", ".example", "*.*", "a b", "10.0.0.0/33", "hooks.example:0", "hooks.example:99999", "ftp://x", "u@h", "[::1", "PUBLIC ", "x/y"} {
		_, err := ParsePolicy([]string{entry})
		require.Error(t, err, entry)
	}
}

// What each policy says of a target: before its name is looked up, and at the address that it leads to.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entries, address, leads string
		check, dial             bool
	}{
		{"public", "https://hooks.example/", "93.184.216.34", true, true},
		{"public", "https://hooks.example:8443/", "2606:2800:220:1::1", true, true},
		{"public", "https://hooks.example:22/", "93.184.216.34", false, false},
		{"public", "http://hooks.example/", "93.184.216.34", false, false},
		{"public", "https://hooks.example/", "10.0.0.1", true, false}, // a name that leads inside
		{"public", "https://hooks.example/", "::ffff:127.0.0.1", true, false},
		{"public", "https://hooks.example/", "169.254.169.254", true, false},
		{"public", "https://hooks.example/", "64:ff9b::a00:1", true, false},
		{"public", "https://hooks.example/", "2002:a00:1::", true, false},
		{"public", "https://hooks.example/", "fd00:ec2::254", true, false},
		{"public", "https://localhost/", "127.0.0.1", false, false},
		{"public", "https://x.localhost/", "127.0.0.1", false, false},
		{"public", "https://127.0.0.1/", "127.0.0.1", false, false},
		{"public", "https://[::1]/", "::1", false, false},
		{"public", "https://10.1.2.3/", "10.1.2.3", false, false},
		{"public", "https://172.31.0.1/", "172.31.0.1", false, false},
		{"public", "https://192.168.1.1/", "192.168.1.1", false, false},
		{"public", "https://100.100.100.200/", "100.100.100.200", false, false},
		{"public", "https://169.254.169.254/", "169.254.169.254", false, false},
		{"public", "https://[fe80::1]/", "fe80::1", false, false},
		{"public", "https://224.0.0.1/", "224.0.0.1", false, false},
		{"public", "https://255.255.255.255/", "255.255.255.255", false, false},
		{"public", "https://0.0.0.0/", "0.0.0.0", false, false},
		{"public", "https://[::]/", "::", false, false},
		{"public", "https://93.184.216.34/", "93.184.216.34", true, true},
		{"", "https://hooks.example/", "93.184.216.34", false, false},
		{"hooks.example", "https://hooks.example/", "10.0.0.1", true, true}, // who lists a name trusts it
		{"hooks.example", "https://HOOKS.example./", "127.0.0.1", true, true},
		{"hooks.example", "https://hooks.example/", "169.254.169.254", true, false},
		{"hooks.example", "https://hooks.example/", "fe80::1", true, false},
		{"hooks.example", "https://hooks.example/", "fd00:ec2::254", true, false},
		{"hooks.example", "https://hooks.example/", "0.0.0.0", true, false},
		{"hooks.example", "https://a.hooks.example/", "93.184.216.34", false, false},
		{"hooks.example", "https://evilhooks.example/", "93.184.216.34", false, false},
		{"hooks.example", "http://hooks.example/", "10.0.0.1", false, false},
		{"http://hooks.example", "http://hooks.example:81/", "10.0.0.1", true, true},
		{"http://hooks.example:80", "http://hooks.example:81/", "10.0.0.1", false, false},
		{"*.hooks.example", "https://a.b.hooks.example/", "10.0.0.1", true, true},
		{"*.hooks.example", "https://hooks.example/", "10.0.0.1", false, false},
		{"*.hooks.example", "https://xhooks.example/", "10.0.0.1", false, false},
		{"10.1.0.0/16", "https://anything.example/", "10.1.2.3", true, true}, // the name may lead there
		{"10.1.0.0/16", "https://anything.example/", "10.2.2.3", true, false},
		{"10.1.0.0/16:8443", "https://10.1.2.3:8443/", "10.1.2.3", true, true},
		{"10.1.0.0/16:8443", "https://10.1.2.3/", "10.1.2.3", false, false},
		{"http://127.0.0.1", "http://127.0.0.1:9999/", "127.0.0.1", true, true},
		{"http://127.0.0.1", "http://127.0.0.2:9999/", "127.0.0.2", false, false},
		{"[::1]:9000", "https://[::1]:9000/", "::1", true, true},
		{"fd00::/8", "https://[fd00::1]/", "fd00::1", true, true},
		{"169.254.169.254", "https://169.254.169.254/", "169.254.169.254", true, true}, // listed as what it is
	} {
		var entries []string
		if c.entries != "" {
			entries = []string{c.entries}
		}
		p := policy(t, entries...)
		target, err := Parse(c.address)
		require.NoError(t, err)
		require.Equal(t, c.check, p.Check(target) == nil, "check %v", c)
		err = p.Dial(target, netip.MustParseAddr(c.leads))
		require.Equal(t, c.dial, err == nil, "dial %v", c)
		if err != nil && target.Host != c.leads {
			require.NotContains(t, err.Error(), c.leads, "who submits does not learn where the name leads")
		}
	}
}

// No address outside of the public network is called under the default policy, in whatever form IPv6 can hold it.
func TestThePublicPolicyReachesNoPrivateAddress(t *testing.T) {
	t.Parallel()
	private := []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "100.64.0.0/10", "224.0.0.0/4", "240.0.0.0/4", "0.0.0.0/8"}
	p := policy(t, Public)
	rapid.Check(t, func(t *rapid.T) {
		prefix := netip.MustParsePrefix(rapid.SampledFrom(private).Draw(t, "range"))
		b := prefix.Addr().As4()
		host := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "host")
		for i := range b {
			for bit := range 8 {
				if i*8+bit >= prefix.Bits() {
					b[i] = b[i]&^(1<<(7-bit)) | host[i]&(1<<(7-bit))
				}
			}
		}
		a := netip.AddrFrom4(b)
		require.True(t, prefix.Contains(a))
		target := Target{Host: "hooks.example", Port: 443}
		for _, form := range []netip.Addr{a, netip.AddrFrom16(a.As16()), embed("64:ff9b::", a, 12), embed("2002::", a, 2), embed("::", a, 12), embed("64:ff9b:1::", a, 12)} {
			require.Error(t, p.Dial(target, form), form.String())
		}
	})
}

// embed puts an address of IPv4 into one of IPv6.
func embed(head string, a netip.Addr, at int) netip.Addr {
	b, four := netip.MustParseAddr(head).As16(), a.As4()
	copy(b[at:], four[:])
	return netip.AddrFrom16(b)
}

func TestShownHidesTheQuery(t *testing.T) {
	t.Parallel()
	require.Equal(t, "https://h/x?…", Shown("https://h/x?token=1"))
	require.Equal(t, "https://h/x", Shown("https://h/x"))
}

// FuzzParse: what is read can be read again from its parts, and what is not public is refused before and at the connection alike.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"https://hooks.example/x", "https://[::1]:1/", "http://127.1/", "https://a:b@c/", "https://0x7f.1/", "https://１２７.0.0.1/"} {
		f.Add(seed)
	}
	p := policy(f, Public)
	f.Fuzz(func(t *testing.T, address string) {
		target, err := Parse(address)
		if err != nil {
			return
		}
		again, err := Parse("https://" + target.Destination() + "/")
		require.NoError(t, err)
		require.Equal(t, target.Destination(), again.Destination())
		if a, err := netip.ParseAddr(target.Host); err == nil {
			require.Equal(t, p.Dial(target, a) == nil, p.Check(target) == nil)
		}
	})
}

// FuzzPolicy: an entry is read or refused, and one that is no range, no name and not public allows nothing.
func FuzzPolicy(f *testing.F) {
	f.Add("10.0.0.0/8:1")
	f.Add("http://[::1]:80")
	f.Fuzz(func(t *testing.T, entry string) {
		p, err := ParsePolicy([]string{entry})
		if err != nil || p.public {
			return
		}
		require.Len(t, p.rules, 1)
		require.True(t, p.rules[0].prefix.IsValid() || hostName(strings.TrimPrefix(p.rules[0].name, ".")))
	})
}
