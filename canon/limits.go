package canon

// Limits bound what Decode accepts (S4.4). A zero or negative field means the value in DefaultLimits.
type Limits struct {
	// Bytes is the size of the whole document.
	Bytes int
	// Depth is how many arrays and objects may be open at once.
	Depth int
	// Members counts object members and array elements of the whole document together.
	Members int
}

// DefaultLimits are generous for arguments of a tool and small for a server.
var DefaultLimits = Limits{Bytes: 1 << 20, Depth: 64, Members: 100_000}

// depthMax bounds recursion whatever the caller's limits say, so that neither a wide limit nor a cyclic value given
// to Encode can exhaust the stack.
const depthMax = 1000

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultLimits.Bytes
	}
	if l.Depth <= 0 {
		l.Depth = DefaultLimits.Depth
	}
	if l.Members <= 0 {
		l.Members = DefaultLimits.Members
	}
	l.Depth = min(l.Depth, depthMax)
	return l
}
