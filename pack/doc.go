// Package pack reads packs, which are folders with a pack.yaml, actions/*.yaml and the code they point to, and decides
// what they mean: the actions, the pool of each action, and the schemas of their parameters.
//
// Load reads all packs and reports all problems together, each with pack, action, file and line. Its result is never
// changed afterwards. A reload loads again and calls Diff to find what to replace. The package starts nothing and
// watches nothing. The node calls Load; the API and the router call Validate and Redact.
//
// Files are strict YAML: an unknown key, a wrong type, a duplicate key, an alias or a second document is a problem.
// Every file is opened inside its pack through os.Root, so neither ".." nor a symlink can leave the pack. All reads are
// bounded.
//
// Its tests take long: under the race detector, patterns are matched with parameters of the largest size.
package pack
