package meter

// graph determines which functions may start without a check, and how much their callers pay for
// that. Most calls go to functions that return after a few instructions; a check at the entry would
// cost more than the function itself. Such a function is cut: paths that leave it early have no
// check, and the longest of them is charged at every call of the function.
//
// Two rules keep the bound. A function that can be called in other ways than directly (from a
// table, through a reference, only by the host) pays for itself. And every cycle of calls passes a
// check: functions are ordered callees first, and if a function calls one that does not come before
// it, its paths are cut before the call. The host may call an exported function that was cut; then
// at most maxPrefix units are not charged.
func (p *planner) graph() *Error {
	m := p.m
	n := len(m.funcs)
	cheap, deep := make([]bool, n), make([]bool, n)
	hostTaken := false // an imported function can be called through a table
	for f := range m.impFuncs {
		hostTaken = hostTaken || m.taken != nil && m.taken[f]
	}
	for f := m.impFuncs; f < n; f++ {
		cheap[f] = (m.taken == nil || !m.taken[f]) && f != m.start
	}
	// Direct calls, all in one slice: those of f are calls[from[f]:from[f+1]].
	var calls []uint32
	from := make([]int, n+1)
	s := scanner{m: m}
	var h heights
	frames := make([]int, n)
	for f := range m.bodies {
		from[m.impFuncs+f] = len(calls)
		s.open(f)
		h.begin()
		for s.err == nil && s.p < s.end {
			s.next()
			if s.err != nil {
				break
			}
			h.step(&s)
			switch {
			case s.op == opBrTable:
				s.labels()
			case s.op == opCall && int(s.arg) >= m.impFuncs:
				if k := len(calls); k == from[m.impFuncs+f] || calls[k-1] != s.arg {
					calls = append(calls, s.arg)
				}
			case s.op == opCallIndirect:
				deep[m.impFuncs+f] = true
			case s.op == opRefFunc:
				cheap[s.arg] = false
				hostTaken = hostTaken || int(s.arg) < m.impFuncs
			}
		}
		if s.err != nil {
			return s.err
		}
		frames[m.impFuncs+f] = h.frame(&s, m.impFuncs+f)
	}
	from[n] = len(calls)
	called := make([]bool, n)
	for _, f := range calls {
		called[f] = true
	}
	for f := range cheap {
		cheap[f] = cheap[f] && called[f]
	}

	// Depth first, without recursion, so that callees come before their callers. A call that does
	// not go down in this order may close a cycle.
	seen := make([]bool, n)
	at := make([]int, n) // the next call of each open function
	var stack, order []uint32
	for root := m.impFuncs; root < n; root++ {
		if seen[root] {
			continue
		}
		stack = append(stack[:0], uint32(root))
		seen[root], at[root] = true, from[root]
		for len(stack) > 0 {
			f := stack[len(stack)-1]
			if at[f] == from[f+1] {
				order = append(order, f)
				stack = stack[:len(stack)-1]
				continue
			}
			g := calls[at[f]]
			at[f]++
			if !seen[g] {
				seen[g], at[g] = true, from[g]
				stack = append(stack, g)
			}
		}
	}

	p.cheap, p.deep, p.rank, p.prefix = cheap, deep, make([]uint32, n), make([]uint16, n)
	p.indirect = weightPlain
	if hostTaken {
		p.indirect = weightHostCall
	}
	for i, f := range order {
		p.rank[f] = uint32(i)
	}
	for _, f := range order {
		for _, g := range calls[from[f]:from[f+1]] {
			deep[f] = deep[f] || deep[g] || p.rank[g] >= p.rank[f]
		}
		if !cheap[f] {
			continue
		}
		begin := p.scan(int(f) - m.impFuncs)
		if p.s.err != nil {
			return p.s.err
		}
		if p.early {
			p.prefix[f] = uint16(p.measure(begin, true))
		}
	}
	p.depths(frames, order, func(f uint32) []uint32 { return calls[from[f]:from[f+1]] })
	return nil
}
