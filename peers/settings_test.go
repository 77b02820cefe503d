package peers

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/test/servers"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	secured := func(s Settings) Settings {
		s.CAFile, s.CertFile, s.KeyFile = "ca", "cert", "key"
		return s
	}
	for _, c := range []struct {
		name     string
		settings Settings
		setting  string // that the problem is of; empty: none
		text     string
	}{
		{"nothing", Settings{}, "", ""},
		{"off", Settings{Listen: Off}, "", ""},
		{"loopback", Settings{Listen: "127.0.0.1:0"}, "", ""},
		{"loopback by name", Settings{Listen: "localhost:7071"}, "", ""},
		{"loopback of IPv6", Settings{Listen: "[::1]:7071"}, "", ""},
		{"secured", secured(Settings{Listen: "10.0.0.5:7071"}), "", ""},
		{"insecure by choice", Settings{Listen: "10.0.0.5:7071", Insecure: true}, "", ""},
		{"everywhere, advertised", secured(Settings{Listen: "0.0.0.0:7071", Advertise: "node-1.internal:7071"}), "", ""},
		{"beyond loopback", Settings{Listen: "10.0.0.5:7071"}, "peers_listen", "other machines could speak for a node"},
		{"beyond loopback by name", Settings{Listen: "node-1:7071"}, "peers_listen", "other machines could speak for a node"},
		{"everywhere, not advertised", secured(Settings{Listen: ":7071"}), "peers_advertise", "nobody can dial the wildcard"},
		{"everywhere advertised", secured(Settings{Listen: "[::]:7071", Advertise: "[::]:7071"}), "peers_advertise", "can dial"},
		{"no port advertised", Settings{Listen: "127.0.0.1:0", Advertise: "127.0.0.1:0"}, "peers_advertise", "can dial"},
		{"no address", Settings{Listen: "7071"}, "peers_listen", "must be host:port"},
		{"no such port", Settings{Listen: "127.0.0.1:99999"}, "peers_listen", "must be host:port"},
		{"half secured", Settings{Listen: "127.0.0.1:0", CertFile: "c", KeyFile: "k"}, "peers_ca_file", "must be given together"},
		{"advertised and off", Settings{Listen: Off, Advertise: "h:1"}, "peers_advertise", "needs node.peers_listen"},
		{"advertised without listening", Settings{Advertise: "h:1"}, "peers_advertise", "needs node.peers_listen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			problems := c.settings.Problems()
			if c.setting == "" {
				require.Empty(t, problems)
				require.NoError(t, c.settings.Check())
				return
			}
			require.Len(t, problems, 1)
			require.Equal(t, c.setting, problems[0].Setting)
			require.ErrorContains(t, c.settings.Check(), c.text)
			_, err := Open(Config{Settings: c.settings, Logger: hclog.NewNullLogger()})
			require.ErrorContains(t, err, c.text, "a node with it does not start")
		})
	}
}

// secured gives a network a certificate of an authority.
func secured(a *servers.Authority) func(*Config) {
	return func(c *Config) {
		c.Settings.CAFile = a.File
		c.Settings.CertFile, c.Settings.KeyFile = a.Issue(c.Own.String(), nil)
	}
}

func TestOnlyCertificatesOfTheAuthorityAreLetIn(t *testing.T) {
	t.Parallel()
	ours, theirs := secured(servers.NewAuthority(t, "ours")), secured(servers.NewAuthority(t, "theirs"))
	a, b, plain, foreign := open(t, ours), open(t, ours), open(t), open(t, theirs)
	introduce(a, b, plain, foreign)
	b.works(a)
	a.works(b)
	for name, stranger := range map[string]*side{"plain": plain, "foreign": foreign} {
		received := a.Counts().Received
		require.Equal(t, membership.Heard{Peers: 1}, stranger.hears(time.Second, a), name)
		require.Equal(t, membership.Heard{Peers: 1}, a.hears(time.Second, stranger), name)
		require.Equal(t, received, a.Counts().Received, name)
	}
	b.works(a)
}

func TestFilesOfCertificates(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	cfg := Config{Settings: Settings{Listen: "127.0.0.1:0"}, Own: messages.NewIncarnation(), Logger: hclog.NewNullLogger()}
	secured(servers.NewAuthority(t, "nodes"))(&cfg)
	for name, change := range map[string]func(*Settings){
		"read the authority of peers":                            func(s *Settings) { s.CAFile = none },
		"holds no certificate in PEM":                            func(s *Settings) { s.CAFile = s.KeyFile },
		"read the certificate for peers":                         func(s *Settings) { s.CertFile = none },
		"read the certificate for peers " + cfg.Settings.KeyFile: func(s *Settings) { s.CertFile = s.KeyFile },
	} {
		bad := cfg
		change(&bad.Settings)
		_, err := Open(bad)
		require.ErrorContains(t, err, name)
	}
}
