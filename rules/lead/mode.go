package lead

import "fmt"

// Mode is what a node is to a pool.
type Mode uint8

// The modes.
const (
	Alone Mode = iota
	Leading
	Following
)

// Modes lists every mode.
func Modes() []Mode { return []Mode{Alone, Leading, Following} }

func (m Mode) String() string {
	names := [...]string{"alone", "leading", "following"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// News is what may change the mode.
type News uint8

// The news.
const (
	LedHere    News = iota // the store says that this node is the router
	LedThere               // the store says that another one is
	LedNowhere             // the store says that nobody is
	Taken                  // the router has taken a report
	TakenWhole             // the router has taken a whole report
	Refused                // the router will not speak for this node
	Failed                 // a report was not taken for now, or nobody knows
	Silent                 // the router has taken nothing for Patience
	Down                   // the router's node has ended
	Resigned               // this node gives the pool up
	newsMax
)

// EachNews lists all news.
func EachNews() []News {
	all := make([]News, newsMax)
	for i := range all {
		all[i] = News(i)
	}
	return all
}

func (n News) String() string {
	names := [...]string{
		"led_here", "led_there", "led_nowhere", "taken", "taken_whole", "refused", "failed", "silent", "down", "resigned",
	}
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("news(%d)", uint8(n))
}

type edge struct {
	from Mode
	news News
}

// edges is the table of the modes; what is not in it changes nothing.
var edges = map[edge]Mode{
	{Alone, LedHere}:      Leading,
	{Alone, TakenWhole}:   Following,
	{Leading, LedThere}:   Alone,
	{Leading, LedNowhere}: Alone,
	{Leading, Resigned}:   Alone,
	{Following, LedHere}:  Leading,
	{Following, Refused}:  Alone,
	{Following, Silent}:   Alone,
}

// Next is the mode that follows from m by the news.
func Next(m Mode, n News) Mode {
	if next, there := edges[edge{m, n}]; there {
		return next
	}
	return m
}
