package pack_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/pack"
)

// problems loads a folder and returns its problems. Paths in them are relative to the folder's parent.
func problems(t testing.TB, dir string, o pack.Options) []string {
	t.Helper()
	set, err := pack.Load([]string{dir}, o)
	require.Nil(t, set)
	var p *pack.Problems
	require.ErrorAs(t, err, &p)
	var texts []string
	for _, text := range p.Texts {
		texts = append(texts, strings.ReplaceAll(text, dir, "core"))
	}
	return texts
}

const goodPack = "name: core\nversion: '1'\n"

// TestBadActions changes one part of a valid action at a time.
func TestBadActions(t *testing.T) {
	t.Parallel()
	const at = " (core/actions/fetch.yaml:3)"
	for _, c := range []struct{ lines, want string }{
		{"timeout_seconds: -3", "timeout_seconds must be positive, got -3" + at},
		{"timeout_seconds: 0", "timeout_seconds must be positive, got 0" + at},
		{"timeout_seconds: .inf", "timeout_seconds must be at most 31457280, got .inf" + at},
		{"timeout_seconds: .nan", "timeout_seconds must be a number of seconds, got the number .nan" + at},
		{"timeout_seconds: 5s", `timeout_seconds must be a number of seconds, got "5s"` + at},
		{"timeout_seconds:", "timeout_seconds must be a number of seconds, got nothing" + at},
		{"timeout: 3", "unknown key timeout: the keys are name, description, runtime, timeout_seconds, stall_timeout, queue_deadline, " +
			"max_retries, idempotent, notify, webhook, affinity, on_no_worker, secrets, retry, pool, entrypoint, command, parameters" + at},
		{"stall_timeout: 30", "stall_timeout must be a duration like 500ms, 30s or 1h, got the number 30" + at},
		{"stall_timeout: soon", `stall_timeout must be a duration like 500ms, 30s or 1h, got "soon"` + at},
		{"queue_deadline: -1s", "queue_deadline must be positive, got -1s" + at},
		{"queue_deadline: 100000h", "queue_deadline must be at most a year, got 100000h" + at},
		{"max_retries: -1", "max_retries must be 0 to 1000, got -1" + at},
		{"max_retries: 99999999999999999999", "max_retries must be a whole number, got the number 99999999999999999999" + at},
		{"max_retries: 1.5", "max_retries must be a whole number, got the number 1.5" + at},
		{"max_retries: many", `max_retries must be a whole number, got "many"` + at},
		{"idempotent: yes", `idempotent must be true or false, got "yes"` + at},
		{"idempotent: 1", "idempotent must be true or false, got the number 1" + at},
		{"notify: no", `notify must be true or false, got "no"` + at},
		{"affinity: loose", `affinity must be hint, strict or strict_fail, got "loose"` + at},
		{"on_no_worker: [fail]", "on_no_worker must be fail or wait, got a list" + at},
		{"secrets: key", `secrets must be a list, got "key"` + at},
		{"secrets: ['']", "secrets[0] is empty" + at},
		{"secrets: [1]", "secrets[0] must be text, got the number 1: put it in quotes" + at},
		{"retry: fast", `retry must be a mapping of keys to values, got "fast"` + at},
		{"retry: {base: 1s, factor: 2}", "unknown key retry.factor: the keys are shape, base, multiplier, max, jitter, on, never_on, unclassified" + at},
		{"retry: {multiplier: 0.5}", "retry.multiplier must be 1 to 100, got 0.5" + at},
		{"retry: {jitter: 2}", "retry.jitter must be 0 to 1, got 2" + at},
		{"retry: {shape: square}", `retry.shape must be fixed, linear, exponential, fibonacci or decorrelated, got "square"` + at},
		{"retry: {unclassified: maybe}", `retry.unclassified must be retry or final, got "maybe"` + at},
		{"retry: {on: timeout}", `retry.on must be a list, got "timeout"` + at},
		{"retry: {never_on: [0]}", "retry.never_on[0] must be an exit status of 1 to 255, got 0" + at},
		{"retry: {never_on: [true]}", "retry.never_on[0] must be text, got true: put it in quotes" + at},
		{"retry: {on: [a], never_on: [a]}", `retry.on and retry.never_on both have "a"` + at},
		{"retry: {base: 10s, max: 1s}", "retry: base is 10s, which is more than max, 1s" + at},
		{"description: 1.0", "description must be text, got the number 1.0: put it in quotes" + at},
		{`description: "a\0b"`, "description holds the control character U+0000 at byte 1" + at},
		{`description: "a\eb"`, "description holds the control character U+001B at byte 1" + at},
		{"description: '" + strings.Repeat("x", 4097) + "'", "description has 4097 bytes, at most 4096 are allowed" + at},
		{"pool: models", "the pack declares no pool models: add it to pools in pack.yaml" + at},
		{"pool: ../models", `pool must be of lower-case letters, digits and _, got "../models"` + at},
		{"command: [ls]", "command is for runtimes shell and process only: name the handler by entrypoint" + at},
		{"entrypoint: no such", `entrypoint "no such" is not the name of a handler: letters, digits and _, joined by . / or -` + at},
		{"entrypoint: other.name", `entrypoint "other.name": this binary has no such Go handler: register it or correct the name` + at},
		{"runtime: go", "the key runtime is there twice" + at},
		{"? [a]\n: b", "a list is not a key: keys are plain text" + at},
		{"idempotent: &x true\nstall_timeout: *x", "stall_timeout must be a duration like 500ms, 30s or 1h, got the alias *x (aliases are not supported) (core/actions/fetch.yaml:4)"},
		{"<<: {pool: x}", "<< is not a key: keys are plain text" + at},
		{"---\nname: two", "a second document: keep one per file" + at},
		{"parameters: {type: object", "not valid YAML: did not find expected ',' or '}'" + at},
		{"parameters: text", `parameters must be a JSON Schema, got "text"` + at},
		{"parameters: [1]", "parameters must be a JSON Schema, got a list" + at},
		{"parameters: {type: string}", "parameters: type must be object, because an execution's parameters always are one" + at},
		{"parameters: {$schema: 'http://json-schema.org/draft-07/schema#'}",
			`parameters: $schema must be https://json-schema.org/draft/2020-12/schema, got "http://json-schema.org/draft-07/schema#"` + at},
		{"parameters: {properties: {a: {type: text}}}",
			"parameters: not a valid JSON Schema: /properties/a/type: got string, want array; /properties/a/type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'" + at},
		{"parameters: {properties: {a: {$ref: 'https://example.com/a.json'}}}",
			"parameters: not a valid JSON Schema: https://example.com/a.json is outside the schema and is not loaded: put the definition under $defs" + at},
		{"parameters: {properties: {a: {$ref: 'file:///etc/passwd'}}}",
			"parameters: not a valid JSON Schema: file:///etc/passwd is outside the schema and is not loaded: put the definition under $defs" + at},
		{"parameters: {properties: {a: {anyOf: [{$ref: '#'}, {$ref: '#'}]}}}",
			"parameters: no check by this JSON Schema could be bounded: /properties/a: leads back to itself in two ways through the same part of a value, " +
				"/properties/a and /properties/a, so that a check could take twice as long with every level: " +
				"tell the two apart by a required property with a const, or by type (docs/packs.md, Parameters)" + at},
		{"parameters: {properties: {a: {pattern: '('}}}", "parameters: not a valid JSON Schema: /properties/a/pattern: '(' is not valid regex: error parsing regexp: missing closing ): `(`" + at},
		{"parameters: {default: .inf}", "parameters.default must be a JSON value, got the number .inf" + at},
		{"parameters: {default: !!binary aGk=}", "parameters.default must be a JSON value, got !!binary aGk=" + at},
		{"parameters: {type: object, type: object}", "the key parameters.type is there twice" + at},
		{"parameters: {default: " + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}",
			"parameters.default" + strings.Repeat("[0]", 27) + "[… is nested deeper than 100 levels" + at},
	} {
		dir := write(t, files{"pack.yaml": goodPack, "actions/fetch.yaml": "name: fetch\nruntime: go\n" + c.lines + "\n"})
		got := problems(t, dir, pack.Options{HasHandler: func(name string) bool { return name == "core.fetch" }})
		require.Equal(t, []string{"pack core: action fetch: " + c.want}, got, "%.60s", c.lines)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files files
		want  []string
	}{
		{"no actions", files{"pack.yaml": goodPack}, []string{
			"pack core: no actions: the folder actions: the file does not exist (core/pack.yaml)"}},
		{"empty actions", files{"pack.yaml": goodPack, "actions/README": ""}, []string{
			"pack core: no actions: add actions/<name>.yaml (core/pack.yaml)"}},
		{"yml", files{"pack.yaml": goodPack, "actions/a.yml": ""}, []string{
			"pack core: actions/a.yml is not read: name it .yaml (core/pack.yaml)",
			"pack core: no actions: add actions/<name>.yaml (core/pack.yaml)"}},
		{"empty action", files{"pack.yaml": goodPack, "actions/a.yaml": "# nothing\n"}, []string{
			"pack core: action a: the file is empty (core/actions/a.yaml)"}},
		{"list", files{"pack.yaml": goodPack, "actions/a.yaml": "- name: a\n"}, []string{
			"pack core: action a: the file must be a mapping of keys to values, got a list (core/actions/a.yaml:1)"}},
		{"malformed", files{"pack.yaml": goodPack, "actions/a.yaml": "name: a\n\tb: [\n"}, []string{
			"pack core: action a: not valid YAML: found a tab character that violates indentation (core/actions/a.yaml:2)"}},
		{"raw NUL", files{"pack.yaml": goodPack, "actions/a.yaml": "name: a\x00\n"}, []string{
			"pack core: action a: not valid YAML: control characters are not allowed (core/actions/a.yaml)"}},
		{"not UTF-8", files{"pack.yaml": goodPack, "actions/a.yaml": "name: \xff\xfe\n"}, []string{
			"pack core: action a: not valid YAML: invalid leading UTF-8 octet (core/actions/a.yaml)"}},
		{"huge", files{"pack.yaml": goodPack, "actions/a.yaml": strings.Repeat("#", 256<<10+1)}, []string{
			"pack core: action a: the file is larger than 256 KiB (core/actions/a.yaml)"}},
		{"deep", files{"pack.yaml": goodPack, "actions/a.yaml": "name: " + strings.Repeat("[", 100_000)}, []string{
			"pack core: action a: not valid YAML: exceeded max depth of 10000 (core/actions/a.yaml)"}},
		{"names", files{"pack.yaml": goodPack, "actions/a.yaml": "name: <script>\nruntime: go\n"}, []string{
			`pack core: action a: name must be of lower-case letters, digits and _, got "<script>" (core/actions/a.yaml:1)`}},
		{"long name", files{"pack.yaml": goodPack, "actions/a.yaml": "name: " + strings.Repeat("x", 65) + "\nruntime: go\n"}, []string{
			"pack core: action a: name has 65 bytes, at most 64 are allowed (core/actions/a.yaml:1)"}},
		{"nothing said", files{"pack.yaml": goodPack, "actions/a.yaml": "description: x\n"}, []string{
			"pack core: action a: name is missing (core/actions/a.yaml:1)",
			"pack core: action a: runtime is missing: python, node, process, shell or go (core/actions/a.yaml:1)"}},
		{"runtime", files{"pack.yaml": goodPack, "actions/a.yaml": "name: a\nruntime: ruby\ncommand: [x]\n"}, []string{
			`pack core: action a: unknown runtime "ruby": want python, node, process, shell or go (core/actions/a.yaml:2)`}},
		{"twice", files{"pack.yaml": goodPack, "actions/a.yaml": "name: a\nruntime: go\n", "actions/b.yaml": "name: a\nruntime: go\n"}, []string{
			"pack core: action a: another file has an action of that name: core/actions/a.yaml (core/actions/b.yaml)"}},
		{"several at once", files{"pack.yaml": "name: core\nversion: 1.2\nextra: 1\n", "actions/a.yaml": "name: a\nruntime: go\naffinity: x\n",
			"actions/b.yaml": "name: b\nruntime: shell\n"}, []string{
			"pack core: version must be text, got the number 1.2: put it in quotes (core/pack.yaml:2)",
			"pack core: unknown key extra: the keys are name, version, description, defaults, pools (core/pack.yaml:3)",
			`pack core: action a: affinity must be hint, strict or strict_fail, got "x" (core/actions/a.yaml:3)`,
			"pack core: action b: command is missing: runtime shell needs one, like [bin/work, --flag] (core/actions/b.yaml:1)"}},
	} {
		require.Equal(t, c.want, problems(t, write(t, c.files), options()), c.name)
	}
}

func TestBadPackFiles(t *testing.T) {
	t.Parallel()
	const place = " (core/pack.yaml:3)"
	for _, c := range []struct{ lines, want string }{
		{"defaults: {retries: 1}", "pack core: unknown key defaults.retries: the keys are max_retries, timeout_seconds, retry" + place},
		{"defaults: {timeout_seconds: -1}", "pack core: defaults.timeout_seconds must be positive, got -1" + place},
		{"defaults: {retry: {base: 0s}}", "pack core: defaults.retry.base must be positive, got 0s" + place},
		{"pools: {}", "pack core: pools must be a list, got a mapping" + place},
		{"pools: [models]", `pack core: pools[0]: a pool must be a mapping of keys to values, got "models"` + place},
		{"pools: [{runtime: go}]", "pack core: pools[0]: name is missing" + place},
		{"pools: [{name: m}]", "pack core: pool m: runtime is missing: python, node, process, shell or go" + place},
		{"pools: [{name: m, runtime: go}, {name: m, runtime: go}]", "pack core: pool m: another pool of the pack has that name" + place},
		{"pools: [{name: m, runtime: python, workers: 0}]", "pack core: pool m: workers must be 1 to 10000, got 0" + place},
		{"pools: [{name: m, runtime: python, workers: {min: 3}}]", "pack core: pool m: workers.max is missing" + place},
		{"pools: [{name: m, runtime: python, workers: {min: 3, max: 2}}]", "pack core: pool m: workers.min is 3, which is more than workers.max, 2" + place},
		{"pools: [{name: m, runtime: python, command: [x]}]", "pack core: pool m: command is for pools of runtime process only" + place},
		{"pools: [{name: m, runtime: go, env: {A: b}}]", "pack core: pool m: env means nothing for runtime go, which runs inside the node" + place},
		{"pools: [{name: m, runtime: shell, recycle: {max_age: 1h}}]",
			"pack core: pool m: recycle means nothing for runtime shell, which starts a program for each execution" + place},
		{"pools: [{name: m, runtime: python, env: {A-B: c}}]", `pack core: pool m: env: "A-B" is not the name of a variable` + place},
		{"pools: [{name: m, runtime: python, env: {TROUPE_X: c}}]", "pack core: pool m: env: TROUPE_X: names that begin with TROUPE_ are set by the node" + place},
		{"pools: [{name: m, runtime: python, env: {A: }}]", "pack core: pool m: env.A must be text, got nothing" + place},
		{`pools: [{name: m, runtime: python, env: {A: "\0"}}]`, "pack core: pool m: env.A holds a control character" + place},
		{"pools: [{name: m, runtime: python, limits: {memory: lots}}]", `pack core: pool m: limits.memory must be a positive size like 512MiB or 2GiB, got "lots"` + place},
		{"pools: [{name: m, runtime: python, limits: {memory: -1}}]", `pack core: pool m: limits.memory must be a positive size like 512MiB or 2GiB, got "-1"` + place},
		{"pools: [{name: m, runtime: python, limits: {memory: 99999999999TiB}}]",
			`pack core: pool m: limits.memory must be a positive size like 512MiB or 2GiB, got "99999999999TiB"` + place},
		{"pools: [{name: m, runtime: python, limits: {ram: 1}}]",
			"pack core: pool m: unknown key limits.ram: the keys are memory, cpu_time, open_files, processes" + place},
		{"pools: [{name: m, runtime: python, recycle: {max_age: 1}}]",
			"pack core: pool m: recycle.max_age must be a duration like 500ms, 30s or 1h, got the number 1" + place},
		{"pools: [{name: m, runtime: python, size: 1}]", "pack core: pool m: unknown key size: the keys are name, runtime, command, workers, env, secrets, user, " +
			"umask, limits, recycle, health, init_timeout, snapshot_every, big_numbers" + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY: hunter2}}]",
			"pack core: pool m: secrets.KEY must say where its value is, {file: /path} or {env: NAME}, and not the value itself" + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY: {file: key}}}]", `pack core: pool m: secrets.KEY.file must be an absolute path on the node, got "key"` + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY: {env: A-B}}}]", `pack core: pool m: secrets.KEY.env: "A-B" is not the name of a variable` + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY: {file: /k, env: K}}}]", "pack core: pool m: secrets.KEY must have either file or env" + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY: {}}}]", "pack core: pool m: secrets.KEY must have either file or env" + place},
		{"pools: [{name: m, runtime: python, secrets: {TROUPE_KEY: {env: K}}}]", "pack core: pool m: secrets: TROUPE_KEY: names that begin with TROUPE_ are set by the node" + place},
		{"pools: [{name: m, runtime: python, env: {KEY: x}, secrets: {KEY: {env: K}}}]", "pack core: pool m: secrets: KEY stands in env too: leave it out there" + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY: {env: K, as: pipe}}}]", `pack core: pool m: secrets.KEY.as must be env or file, got "pipe"` + place},
		{"pools: [{name: m, runtime: python, env: {KEY_FILE: x}, secrets: {KEY: {env: K, as: file}}}]",
			"pack core: pool m: secrets: KEY is given as a file, whose path is in KEY_FILE: that name is taken" + place},
		{"pools: [{name: m, runtime: python, secrets: {KEY_FILE: {env: L}, KEY: {env: K, as: file}}}]",
			"pack core: pool m: secrets: KEY is given as a file, whose path is in KEY_FILE: that name is taken" + place},
		{"pools: [{name: m, runtime: python, user: [a]}]", "pack core: pool m: user must be text, got a list" + place},
		{"pools: [{name: m, runtime: python, user: 'a b'}]", `pack core: pool m: user must be a name or a uid, with :group or without, got "a b"` + place},
		{"pools: [{name: m, runtime: python, user: ''}]", `pack core: pool m: user must be a name or a uid, with :group or without, got ""` + place},
		{"pools: [{name: m, runtime: python, user: absent}]", "pack core: pool m: user absent: nobody here has that name" + place},
		{"pools: [{name: m, runtime: python, umask: 888}]", `pack core: pool m: umask must be three octal digits, such as 027, got "888"` + place},
		{"pools: [{name: m, runtime: python, umask: 7}]", `pack core: pool m: umask must be three octal digits, such as 027, got "7"` + place},
		{"pools: [{name: m, runtime: go, user: nobody}]", "pack core: pool m: user means nothing for runtime go, which runs inside the node" + place},
		{"pools: [{name: m, runtime: python, snapshot_every: 0}]", "pack core: pool m: snapshot_every must be 1 to 1073741824, got 0" + place},
		{"pools: [{name: m, runtime: shell, snapshot_every: 1}]",
			"pack core: pool m: snapshot_every means nothing for runtime shell, which starts a program for each execution" + place},
		{"pools: [{name: m, runtime: python, big_numbers: text}]", "pack core: pool m: big_numbers is for pools of runtime node only" + place},
		{"pools: [{name: m, runtime: node, big_numbers: float}]", `pack core: pool m: big_numbers must be error, bigint or text, got "float"` + place},
		{"pools: [{name: m, runtime: process, command: []}]", "pack core: pool m: command is empty: give the program and its arguments as a list" + place},
	} {
		dir := write(t, files{"pack.yaml": goodPack + c.lines + "\n", "actions/a.yaml": "name: a\nruntime: go\n"})
		require.Equal(t, []string{c.want}, problems(t, dir, options()), c.lines)
	}
	named := func(content string) []string {
		dir := write(t, files{"core/pack.yaml": content, "core/actions/a.yaml": "name: a\nruntime: go\n"})
		return problems(t, filepath.Join(dir, "core"), options())
	}
	require.Equal(t, []string{`pack core: name must be of lower-case letters, digits and _, got "My Pack" (core/pack.yaml:1)`},
		named("name: My Pack\nversion: '1'\n"))
	require.Equal(t, []string{"pack core: name is missing (core/pack.yaml:1)"}, named("version: '1'\n"))
	require.Equal(t, []string{"pack core: version is missing (core/pack.yaml:1)"}, named("name: core\n"))
	require.Equal(t, []string{`pack core: version must be of letters, digits and . + _ -, got "1 <b>" (core/pack.yaml:2)`},
		named("name: core\nversion: 1 <b>\n"))
}

func TestBadCode(t *testing.T) {
	t.Parallel()
	outside := write(t, files{"secret.py": "", "bin/run": "#!"})
	for _, c := range []struct{ lines, want string }{
		{"runtime: python", "entrypoint is missing: runtime python needs one, like actions/work.py:run (core/actions/fetch.yaml:1)"},
		{"runtime: python\nentrypoint: actions/missing.py:f", `entrypoint "actions/missing.py:f": the file does not exist`},
		{"runtime: python\nentrypoint: ../secret.py", `entrypoint "../secret.py": the path must not contain ..`},
		{"runtime: python\nentrypoint: lib/../lib/work.py", `entrypoint "lib/../lib/work.py": the path must not contain ..`},
		{"runtime: python\nentrypoint: " + outside + "/secret.py", `entrypoint "` + outside + `/secret.py": the path must be relative to the pack`},
		{"runtime: python\nentrypoint: lib/out.py", `entrypoint "lib/out.py": the path leads out of the pack: keep the file inside it; a symlink must be relative`},
		{"runtime: python\nentrypoint: outside/secret.py", `entrypoint "outside/secret.py": the path leads out of the pack: keep the file inside it; a symlink must be relative`},
		{"runtime: python\nentrypoint: lib", `entrypoint "lib": it is a folder`},
		{"runtime: python\nentrypoint: lib/pipe.py", `entrypoint "lib/pipe.py": it is not a regular file`},
		{"runtime: python\nentrypoint: ':run'", `entrypoint ":run": the file's name is missing`},
		{"runtime: python\nentrypoint: 'lib/work.py:'", `entrypoint "lib/work.py:": "" is not the name of a function`},
		{"runtime: python\nentrypoint: 'lib/work.py:a b'", `entrypoint "lib/work.py:a b": "a b" is not the name of a function`},
		{`runtime: python` + "\n" + `entrypoint: lib\work.py`, `entrypoint "lib\\work.py": the path must use / and not \`},
		{"runtime: python\nentrypoint: \"lib/\\0.py\"", "entrypoint holds the control character U+0000 at byte 4"},
		{"runtime: python\nentrypoint: 3", "entrypoint must be text, got the number 3: put it in quotes"},
		{"runtime: shell\ncommand: ls -l", `command must be a list, got "ls -l"`},
		{"runtime: shell\ncommand: [ls, 1]", "command[1] must be text, got the number 1: put it in quotes"},
		{"runtime: shell\ncommand: [\"a\\0\"]", "command[0] holds the control character U+0000 at byte 1"},
		{"runtime: shell\ncommand: [' ls']", `command: " ls": the program's name begins or ends with white space, or holds a line break or tab`},
		{"runtime: shell\ncommand: [/no/such/program]", `command: "/no/such/program": the file does not exist`},
		{"runtime: shell\ncommand: [bin/missing]", `command: "bin/missing": the file does not exist`},
		{"runtime: shell\ncommand: [lib/work.py]", `command: "lib/work.py": the file is not executable: chmod +x it`},
		{"runtime: shell\ncommand: [bin/dos]", `command: "bin/dos": its first line ends with a carriage return, so the interpreter is not found: save the file with the line ends of Unix`},
		{"runtime: shell\ncommand: [bin/ghost, a]", `command: "bin/ghost": the interpreter in its first line, /no/such/python: no such file or directory`},
		{"runtime: shell\ncommand: [../bin/run]", `command: "../bin/run": the path must not contain ..`},
		{"runtime: shell\ncommand: [outside/bin/run]", `command: "outside/bin/run": the path leads out of the pack: keep the file inside it; a symlink must be relative`},
	} {
		dir := write(t, files{"pack.yaml": goodPack, "actions/fetch.yaml": "name: fetch\n" + c.lines + "\n", "lib/work.py": "",
			"bin/dos": "#!/bin/sh\r\n", "bin/ghost": "#!/no/such/python -u\n"})
		for _, program := range []string{"dos", "ghost"} {
			require.NoError(t, os.Chmod(filepath.Join(dir, "bin", program), 0o700))
		}
		link(t, outside+"/secret.py", dir+"/lib/out.py")
		link(t, outside, dir+"/outside")
		require.NoError(t, syscall.Mkfifo(dir+"/lib/pipe.py", 0o644))
		want := "pack core: action fetch: " + c.want
		if !strings.HasSuffix(want, ")") || strings.HasSuffix(want, "...)") {
			want += " (core/actions/fetch.yaml:3)"
		}
		require.Equal(t, []string{want}, problems(t, dir, options()), c.lines)
	}
}

func TestBadPools(t *testing.T) {
	t.Parallel()
	const pools = "pools: [{name: m, runtime: python}, {name: prog, runtime: process, command: [serve]}, {name: own, runtime: go}, {name: bare, runtime: process}]\n"
	for _, c := range []struct{ action, want string }{
		{"name: a\nruntime: go\npool: m", "pool m is for runtime python, the action's is go (core/actions/a.yaml:3)"},
		{"name: a\nruntime: process\npool: prog\ncommand: [other, x]",
			`pool prog runs another command, "serve": actions of one process pool share its program (core/actions/a.yaml:4)`},
		{"name: a\nruntime: process\npool: bare", "neither the action nor the pool bare has a command, and no action before it (core/actions/a.yaml:3)"},
		{"name: own\nruntime: process\ncommand: [serve]", "the pack has a pool of the action's name: add pool: own, or rename one of them (core/actions/a.yaml:1)"},
	} {
		dir := write(t, files{"pack.yaml": goodPack + pools, "actions/a.yaml": c.action})
		name := strings.TrimPrefix(strings.SplitN(c.action, "\n", 2)[0], "name: ")
		require.Equal(t, []string{"pack core: action " + name + ": " + c.want}, problems(t, dir, options()), c.action)
	}
}

func TestBadFolders(t *testing.T) {
	t.Parallel()
	dir := write(t, files{
		"file": "", "one/pack.yaml": goodPack, "one/actions/a.yaml": "name: a\nruntime: go\n",
		"two/pack.yaml": goodPack, "two/actions/a.yaml": "name: a\nruntime: go\n", "empty/x": "",
	})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "odd"), 0o755))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "odd", "pack.yaml"), 0o644))
	_, err := pack.Load([]string{dir + "/none", dir + "/file", dir + "/empty", "", "a\x00b", dir + "/one", dir + "/two", dir + "/odd"}, options())
	require.Error(t, err)
	want := []string{
		"packs: D/none: there is no such folder",
		"packs: D/file is not a folder: name the folder that holds pack.yaml",
		"packs: D/empty: no pack.yaml in it or in a folder of it",
		`packs: "" is not a folder's name`,
		`packs: "a\x00b" is not a folder's name`,
		"pack core: another pack has that name: D/one/pack.yaml (D/two/pack.yaml)",
		"pack odd: not a regular file (D/odd/pack.yaml)",
	}
	require.Equal(t, strings.Join(want, "\n"), strings.ReplaceAll(err.Error(), dir, "D"))
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	contents := files{"pack.yaml": goodPack}
	for i := range 150 {
		contents[fmt.Sprintf("actions/a%d.yaml", i)] = "name: a\x1b[31m\n"
	}
	_, err := pack.Load([]string{write(t, contents)}, options())
	var p *pack.Problems
	require.True(t, errors.As(err, &p))
	require.Len(t, p.Texts, 100)
	require.Equal(t, 50, p.More)
	require.True(t, strings.HasSuffix(err.Error(), "\nand 50 more"))
	require.NotContains(t, err.Error(), "\x1b")
}

func TestTooManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 10,000 files: not with -short")
	}
	t.Parallel()
	contents := files{"pack.yaml": goodPack, "actions/a.yaml": "name: a\nruntime: go\n"}
	dir := write(t, contents)
	for i := range 10_000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), nil, 0o644))
	}
	require.Equal(t, []string{"pack core: the folder holds more than 10000 files: keep data elsewhere (core/pack.yaml)"},
		problems(t, dir, options()))
}
