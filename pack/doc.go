// Package pack reads packs, which are folders with a pack.yaml, actions/*.yaml and the code they point to, and
// decides what they mean: which actions there are, which pool each runs in, what their parameters must look like.
//
// Load reads everything at once and reports every problem at once, each with pack, action, file and line; its result
// is a value that is never changed afterwards. A reload loads again and asks Diff what to replace. The package
// starts nothing and watches nothing. The node calls Load; the API and the router call Validate and Redact.
//
// Files are strict YAML: an unknown key, a wrong type, a duplicate key, an alias or a second document is a problem.
// Everything is opened inside its pack through os.Root, so neither ".." nor a symlink leads out, and everything read
// is bounded.
package pack
