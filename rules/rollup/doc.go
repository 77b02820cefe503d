// Package rollup counts executions by minute: how many were submitted and ended, and how long they waited and ran. It owns the histogram of
// those times, the counts of a node that the store does not have yet, the hours that minutes are added up to, and the series that are made of
// the stored rows.
//
// It decides by values alone. The node adds to it what the recorder and the submissions report, and writes the rows.
package rollup
