package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestUnitIsHardened: the systemd unit takes what neither node nor worker needs, and leaves what the guardian does:
// its own control group, signals to its own user's processes, and code that Node.js makes as it runs.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	set := map[string][]string{}
	for line := range strings.Lines(string(deployed(t, "troupe.service"))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			set[key] = append(set[key], value)
		}
	}
	for _, key := range []string{
		"NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectClock", "ProtectHostname", "ProtectKernelLogs",
		"ProtectKernelModules", "ProtectKernelTunables", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality",
	} {
		require.Equal(t, []string{"true"}, set[key], key)
	}
	require.Equal(t, []string{"strict"}, set["ProtectSystem"])
	require.Equal(t, []string{""}, set["CapabilityBoundingSet"])
	require.Equal(t, []string{"0077"}, set["UMask"])
	require.Equal(t, "@system-service", set["SystemCallFilter"][0])
	for _, key := range []string{"TasksMax", "MemoryMax", "LimitNOFILE"} {
		require.Len(t, set[key], 1, key)
		require.NotEqual(t, "infinity", set[key][0], key)
	}
	require.Equal(t, []string{"memory pids"}, set["Delegate"])
	require.Equal(t, []string{"continue"}, set["OOMPolicy"], "a worker that is killed for its memory must not take the node along")
	for _, key := range []string{"ProtectControlGroups", "MemoryDenyWriteExecute"} {
		require.NotContains(t, set, key)
	}
}

// TestPodsAreHardened: the manifests pass the restricted level of Kubernetes' pod security standards, tell no workload who it is,
// bound who reaches it, and point scrapes at a port that answers them.
func TestPodsAreHardened(t *testing.T) {
	t.Parallel()
	found := map[string]map[string]any{}
	d := yaml.NewDecoder(strings.NewReader(string(deployed(t, "kubernetes/troupe.yaml"))))
	for {
		var m map[string]any
		if d.Decode(&m) != nil {
			break
		}
		found[m["kind"].(string)] = m
	}
	require.Contains(t, found, "NetworkPolicy")
	require.Contains(t, found, "StatefulSet")
	pod := at(found["StatefulSet"], "spec", "template", "spec").(map[string]any)
	require.Equal(t, false, pod["automountServiceAccountToken"])
	require.Equal(t, true, at(pod, "securityContext", "runAsNonRoot"))
	require.Equal(t, "RuntimeDefault", at(pod, "securityContext", "seccompProfile", "type"))
	container := pod["containers"].([]any)[0].(map[string]any)
	require.Equal(t, false, at(container, "securityContext", "allowPrivilegeEscalation"))
	require.Equal(t, true, at(container, "securityContext", "readOnlyRootFilesystem"))
	require.Equal(t, []any{"ALL"}, at(container, "securityContext", "capabilities", "drop"))

	env := map[string]string{}
	for _, e := range container["env"].([]any) {
		value, _ := e.(map[string]any)["value"].(string)
		env[e.(map[string]any)["name"].(string)] = value
	}
	require.Equal(t, "true", env["TROUPE_HEALTH_METRICS"])
	port := at(found["StatefulSet"], "spec", "template", "metadata", "annotations", "prometheus.io/port")
	require.True(t, strings.HasSuffix(env["TROUPE_HEALTH_LISTEN"], ":"+port.(string)), "scrapes must meet the health port")
	mounts := container["volumeMounts"].([]any)
	for _, path := range []string{"/tmp", "/var/lib/troupe"} {
		require.True(t, slices.ContainsFunc(mounts, func(m any) bool { return m.(map[string]any)["mountPath"] == path }), "workers write to "+path)
	}
}

// at is what stands under the keys, one inside the other.
func at(v any, keys ...string) any {
	for _, key := range keys {
		v = v.(map[string]any)[key]
	}
	return v
}

// TestReleasesTellNothingOfWhoBuiltThem: what is passed on holds no paths of the machine that built it, and no symbols.
func TestReleasesTellNothingOfWhoBuiltThem(t *testing.T) {
	t.Parallel()
	made, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	build := regexp.MustCompile(`go\)? build -trimpath -ldflags=['"]-s -w['"] `)
	_, release, _ := strings.Cut(string(made), "\nrelease:")
	recipe, _, _ := strings.Cut(release, "\n\n")
	require.Regexp(t, build, strings.ToLower(recipe), "make release")
	require.Regexp(t, build, string(deployed(t, "Dockerfile")))
}
