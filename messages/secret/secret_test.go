package secret

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressesAreShownWithoutPasswords(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"": "", "localhost": "localhost", "localhost:5672": "localhost:5672",
		"postgres://db/troupe":                            "postgres://db/troupe",
		"postgres://troupe@db:5432/troupe":                "postgres://troupe@db:5432/troupe",
		"postgres://troupe:hunter2@db:5432/troupe":        "postgres://troupe:xxxxx@db:5432/troupe",
		"postgres://:hunter2@db/":                         "postgres://:xxxxx@db/",
		"amqp://u:hun%40ter2@mq/%2f":                      "amqp://u:xxxxx@mq/%2f",
		"amqp://u:hunter2@[::1]:5672/":                    "amqp://u:xxxxx@[::1]:5672/",
		"amqp://u:hun/ter2@mq:5672/":                      "amqp://u:xxxxx@mq:5672/",
		"amqp://u:hun@ter2@mq:5672/":                      "amqp://u:xxxxx@mq:5672/",
		"amqp://u:hun?ter2@mq:5672/":                      "amqp://u:xxxxx@mq:5672/",
		"amqp://u:hunter2%@mq":                            "amqp://u:xxxxx@mq",
		"amqp://u:12/hunter2@mq":                          "amqp://u:xxxxx@mq",
		"postgres://db:5432/t?options=a@b":                "postgres://db:5432/t?options=a@b",
		"postgres://db/t?password=hunter2&sslmode=off":    "postgres://db/t?password=xxxxx&sslmode=off",
		"postgres://db/t?pass%77ord=hunter2":              "postgres://db/t?pass%77ord=xxxxx",
		"postgres://u:hunter2@db/t?sslpassword=hunter2":   "postgres://u:xxxxx@db/t?sslpassword=xxxxx",
		"host=db user=u password=hunter2 dbname=t":        "host=db user=u password=xxxxx dbname=t",
		"host=db password = 'hunter2 \\' hunter2' port=1": "host=db password = xxxxx port=1",
		"password='hunter2":                               "password=xxxxx",
		"PASSWORD=hunter2\thost=db":                       "PASSWORD=xxxxx\thost=db",
		"host=db sslpassword=hunter2":                     "host=db sslpassword=xxxxx",
		"u:hunter2@db":                                    "u:xxxxx@db",
	} {
		require.Equal(t, want, Address(address), address)
	}
}

func TestTextsAreShownWithoutPasswords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`parse "amqp://u:hunter2@mq/": invalid`:             `parse "amqp://u:xxxxx@mq/": invalid`,
		"postgres://a:hunter2@h, amqp://b:hunter2@h":        "postgres://a:xxxxx@h, amqp://b:xxxxx@h",
		"cannot parse `host=db password=hunter2`: no":       "cannot parse `host=db password=xxxxx no",
		"password = 'hunter2 hunter2' and more":             "password = xxxxx and more",
		"node listens on http://127.0.0.1:7070; mail a@b.c": "node listens on http://127.0.0.1:7070; mail a@b.c",
		"see http://127.0.0.1:7070/a@b":                     "see http://127.0.0.1:7070/a@b",
		"password authentication failed for user":           "password authentication failed for user",
		`e="parse \"host=a password=hunter2\"" n=1`:         `e="parse \"host=a password=xxxxx\"" n=1`,
		`e="parse \"host=a password=hun\\\\ter2\"" n=1`:     `e="parse \"host=a password=xxxxx\"" n=1`,
		`password=hunter\ 2 host=a`:                         "password=xxxxx host=a",
		`password=hunter2\`:                                 "password=xxxxx",
		"nothing":                                           "nothing",
	} {
		require.Equal(t, want, Text(text), text)
	}
}

// TestErrorsOfLibrariesLoseThePassword: they show the part of the address that they did not understand.
func TestErrorsOfLibrariesLoseThePassword(t *testing.T) {
	t.Parallel()
	require.Equal(t, `invalid port ":xxxxx" after host`, Without(`invalid port ":hunter2" after host`, "amqp://u:hunter2@h:1"))
	require.Equal(t, `invalid port ":xxxxx" after host`, Without(`invalid port ":hunter2" after host`, "amqp://u:hunter2/more@h:1"))
	require.Equal(t, "no xxxxx", Without("no hunter 2", "amqp://u:hunter%202@h:1"))
	require.Equal(t, "a cat", Without("a cat", "amqp://u:a@h:1"), "too short to be told from other text")
	require.Equal(t, "amqp://u:xxxxx@h", Without("amqp://u:a@h", "amqp://u:a@h"))
	require.Equal(t, "as it is", Without("as it is", ""))
}

// TestJSONStaysJSON: a string is looked at as it was before it was escaped.
func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"error":"cannot parse \"host=a password=hunter2\"","n":1.50}` + "\n": `{"error":"cannot parse \"host=a password=xxxxx\"","n":1.50}` + "\n",
		`{"a":"password=hunter2\nmore","b":["p://u:hunter2@h"]}`:               `{"a":"password=xxxxx\nmore","b":["p://u:xxxxx@h"]}`,
		`{"a":"password=hunter2\u0026x=1"}`:                                    `{"a":"password=xxxxx\u0026x=1"}`,
		`{"a":"password='hunter2 \"hunter2\"'"}`:                               `{"a":"password=xxxxx"}`,
		`{"a":"p:\/\/u:hunter2@h","password=":"hunter2"}`:                      `{"a":"p://u:xxxxx@h","password=":"hunter2"}`,
		`{"a":"\u0041 as it is"}`:                                              `{"a":"\u0041 as it is"}`,
		`{"not JSON": password=hunter2`:                                        `{"not JSON": password=xxxxx`,
	} {
		require.Equal(t, want, JSON(text), text)
	}
}

// FuzzJSON: a JSON text with a password in a string, whatever stands around it there, stays JSON and holds it no more.
func FuzzJSON(f *testing.F) {
	f.Add("cannot parse", "password=abcd", `: no`)
	f.Add(`\`, `password='\"`, "\n\t\u2028<>&'\"")
	f.Add("password=", `\`, `\"`)
	f.Fuzz(func(t *testing.T, name, head, tail string) {
		const password = "hunter2hunter2"
		if strings.Contains(name+head+tail, password) {
			return
		}
		for _, text := range []string{
			fmt.Sprintf("%s %q %s", head, "host=a password="+password, tail), head + " password=" + password + `\`,
			fmt.Sprintf("%s %q %s", head, "amqp://u:"+password+"@h", tail), head + ` "host=a password=` + password + `"` + tail,
		} {
			line, err := json.Marshal(map[string]string{name: text})
			require.NoError(t, err)
			var shown map[string]string
			require.NoError(t, json.Unmarshal([]byte(JSON(string(line))), &shown))
			require.Len(t, shown, 1)
			require.NotContains(t, fmt.Sprint(shown), password)
		}
	})
}

// FuzzAddress: whatever stands around it, the password of a well-formed address is not shown, and no text makes it panic.
func FuzzAddress(f *testing.F) {
	f.Add("user", "db/troupe?sslmode=off")
	f.Add("", "password='")
	f.Fuzz(func(t *testing.T, head, tail string) {
		const password = "hunter2hunter2"
		if strings.ContainsAny(head, ":@/?#") {
			return
		}
		require.NotContains(t, Address("postgres://"+head+":"+password+"@"+tail), password)
		_ = Address(head + tail)
		_ = Text(head + "=" + tail)
	})
}
