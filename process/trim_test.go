package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyCleanPartsOfTheProgramAreTaken(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-014ad000 r-xp 00000000 fe:00 10593089                           /usr/bin/troupe
Rss:               14576 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
014ad000-0272a000 r--p 010ad000 fe:00 10593089                           /usr/bin/troupe
Anonymous:             0 kB
Swap:                  0 kB
0272a000-0272b000 r--p 0232a000 fe:00 10593089                           /usr/bin/troupe
Anonymous:             4 kB
Swap:                  0 kB
0272b000-0272c000 r--p 0232b000 fe:00 10593089                           /usr/bin/troupe
Anonymous:             0 kB
Swap:                  4 kB
0272c000-0285c000 rw-p 0232c000 fe:00 10593089                           /usr/bin/troupe
Anonymous:             0 kB
Swap:                  0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7f435be61000-7f435bfb7000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
7f435be61000-zz r-xp 00026000 fe:00 326269                     /usr/bin/troupe
Anonymous:             0 kB
Swap:                  0 kB
`
	require.Equal(t, []mapping{{0x400000, 0x14ad000}, {0x14ad000, 0x272a000}}, cleanMappings(strings.NewReader(smaps), "/usr/bin/troupe"))
	require.Empty(t, cleanMappings(strings.NewReader(strings.ReplaceAll(smaps, "Swap:", "Swapped:")), "/usr/bin/troupe"), "a kernel that does not say all")
}

func TestTheProgramRunsOnWithoutItsPages(t *testing.T) {
	t.Parallel()
	TrimProgram()
	require.Equal(t, "3 1 2", strings.Join([]string{"3", "1", "2"}, " "))
}
