package dashboards

// place is where something stands on a page: Grafana's grid has 24 columns, and a line of it is some 30 pixels high.
type place struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

const gridColumns = 24

// columns is how many panels stand side by side in a row of n: as many as fill its lines best.
func columns(n int) int {
	switch {
	case n <= 4:
		return n
	case n%4 == 0:
		return 4
	}
	return 3
}

// height is the height of a panel, in lines of the grid.
func (k Kind) height() int {
	if k == Number {
		return 4
	}
	return 8
}

// layout places the head of a row at y, and its panels below. next is where the following row begins.
func layout(r *Row, y int) (head place, panels []place, next int) {
	head = place{H: 1, W: gridColumns, Y: y}
	y++
	side := columns(len(r.Panels))
	width := gridColumns / side
	for i := range r.Panels {
		h := r.Panels[i].Kind.height()
		panels = append(panels, place{H: h, W: width, X: i % side * width, Y: y})
		next = y + h
		if i%side == side-1 {
			y = next
		}
	}
	return head, panels, next
}
