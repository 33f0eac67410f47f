package sandbox

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helix/backend/sandbox/prelude"
)

// segment maps one place in generated text to one in the source, all counted from 0.
type segment struct{ col, srcLine, srcCol int }

// positionMap is a decoded source map with one source: segments by generated line, in
// column order.
type positionMap [][]segment

var errMap = errors.New("bad source map")

// parseMap reads a version 3 source map.
func parseMap(text []byte) (positionMap, error) {
	var raw struct {
		Version  int
		Mappings string
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	if raw.Version != 3 {
		return nil, errMap
	}
	var m positionMap
	var src, line, col int
	for _, group := range strings.Split(raw.Mappings, ";") {
		var segs []segment
		gen := 0
		for _, s := range strings.Split(group, ",") {
			if s == "" {
				continue
			}
			f, err := decodeVLQ(s)
			if err != nil {
				return nil, err
			}
			if len(f) != 1 && len(f) != 4 && len(f) != 5 {
				return nil, errMap
			}
			gen += f[0]
			if len(f) == 1 {
				continue
			}
			src, line, col = src+f[1], line+f[2], col+f[3]
			if gen < 0 || src < 0 || line < 0 || col < 0 {
				return nil, errMap
			}
			segs = append(segs, segment{gen, line, col})
		}
		m = append(m, segs)
	}
	return m, nil
}

const vlqDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func decodeVLQ(s string) ([]int, error) {
	var out []int
	value, shift := 0, 0
	for i := 0; i < len(s); i++ {
		d := strings.IndexByte(vlqDigits, s[i])
		if d < 0 || shift > 30 {
			return nil, errMap
		}
		value |= (d & 31) << shift
		if d&32 != 0 {
			shift += 5
			continue
		}
		n := value >> 1
		if value&1 != 0 {
			n = -n
		}
		out = append(out, n)
		value, shift = 0, 0
	}
	if shift != 0 {
		return nil, errMap
	}
	return out, nil
}

// find returns the source position for a generated one: that of the nearest segment at or before it
// on its line.
func (m positionMap) find(line, col int) (srcLine, srcCol int, ok bool) {
	if line < 0 || line >= len(m) || len(m[line]) == 0 {
		return 0, 0, false
	}
	segs := m[line]
	i, exact := slices.BinarySearchFunc(segs, col, func(s segment, c int) int { return s.col - c })
	if !exact {
		i = max(i-1, 0)
	}
	return segs[i].srcLine, segs[i].srcCol, true
}

// lineMap maps positions in the code that the engine compiled to the original source.
type lineMap struct {
	m     positionMap
	shift int // lines added before the generated text
	above int // lines added before the source text
}

// original maps a position, counted from 1; 0, 0 means that it has no equivalent in the source.
func (l lineMap) original(line, col int) (int, int) {
	srcLine, srcCol, ok := l.m.find(line-1-l.shift, col-1)
	if !ok || srcLine < l.above {
		return 0, 0
	}
	return srcLine - l.above + 1, srcCol + 1
}

// frame matches a line of an engine's stack trace that has a file and a position.
var frame = regexp.MustCompile(`(?m)^(\s+at .*?)(\(?)([^()\n]+):(\d+):(\d+)(\)?)$`)

// positions replaces the positions of stack traces in text by those in the original source, and
// drops frames of the host.
func (p *Program) positions(text string) string {
	if !strings.Contains(text, "    at ") {
		return text
	}
	out := make([]string, 0, 16)
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    at ") && strings.Contains(line, prelude.Name) {
			continue
		}
		m := frame.FindStringSubmatch(line)
		if m == nil || strings.TrimSpace(m[3]) != p.name && !strings.HasSuffix(m[3], " "+p.name) {
			out = append(out, line)
			continue
		}
		n, _ := strconv.Atoi(m[4])
		c, _ := strconv.Atoi(m[5])
		if n, c = p.lines.original(n, c); n == 0 {
			continue
		}
		out = append(out, m[1]+m[2]+m[3]+":"+strconv.Itoa(n)+":"+strconv.Itoa(c)+m[6])
	}
	return strings.Join(out, "\n")
}
