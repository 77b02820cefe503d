package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker of a release (-X main.version=…).
var version = "dev"

// build is what this binary is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}

// versionVerb prints what this binary is.
type versionVerb struct{ *app }

func (v versionVerb) command() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if v.output == "json" {
				return v.printJSON(b)
			}
			_, err := fmt.Fprintln(v.out, "troupe", b.Version, b.Revision, b.Go, b.Platform)
			return err
		},
	}
}
