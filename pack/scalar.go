package pack

import (
	"math"
	"regexp"
	"strconv"
)

var sizePattern = regexp.MustCompile(`^([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([KMGT]i?B|B)?$`)

var sizeUnits = map[string]float64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// parseSize reads a positive number of bytes, with a binary (KiB) or decimal (KB) unit.
func parseSize(s string) (int64, bool) {
	match := sizePattern.FindStringSubmatch(s)
	if match == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return 0, false
	}
	v *= sizeUnits[match[2]]
	if v < 1 || v > math.MaxInt64/2 {
		return 0, false
	}
	return int64(v), true
}
