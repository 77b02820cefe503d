// Package node assembles one Troupe node: from a Config it opens the adapters, ends what an earlier boot left behind,
// gives back what that boot had on its workers, and starts the tree; and it stops all of that in reverse. It reads no
// flags, files of settings or environment, and handles no signals: that is the business of cmd.
package node
