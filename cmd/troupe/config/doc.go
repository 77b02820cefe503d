// Package config reads a node's whole configuration: from a strict YAML file, from the environment and from flags, in
// that order of growing weight, over the defaults. It knows of every value where it came from, refuses unknown keys
// with their file and line, and reports every problem at once.
//
// Every key is a field of Config, or of a component's settings in it, which the component tags itself. The struct is
// walked by reflection into one table (keys.go), from which the file reader, the environment, the flags, `troupe config`
// and docs/configuration.md are all served, so that they cannot disagree. A key's default is what its component says
// (defaults.go). A field's tags say the rest: yaml (its name), unit (s, ms or B, of a bare number), range (of a number; seconds of a
// duration), flag, secret, and help (meaning, for people); on:"false" where the field is true when the key is off, zero:"forever" where
// the key's 0 is the component's word for that.
//
// Nothing else in Troupe reads files, flags or the environment for its settings; cmd/troupe hands the values on.
package config
