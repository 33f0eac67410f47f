package sandbox

import (
	"encoding/json"
	"strings"
	"time"
)

// logBuffer collects the log lines of one run, up to a total number of bytes.
type logBuffer struct {
	lines []LogLine
	left  int64
	full  bool
	now   func() time.Time
	tell  func(LogLine)
}

func newLogBuffer(limit int64, now func() time.Time, tell func(LogLine)) logBuffer {
	return logBuffer{lines: []LogLine{}, left: limit, now: now, tell: tell}
}

// lineCost is the number of bytes that each line counts besides its text, so that empty lines are
// limited too.
const lineCost = 16

// add appends one line; it returns false if the log is full and no more lines should be added.
func (l *logBuffer) add(level, message, fields string) bool {
	if l.full {
		return false
	}
	switch level {
	case "debug", "info", "warn", "error":
	default:
		level = "info"
	}
	line := LogLine{Time: l.now().UTC(), Level: level, Message: strings.ToValidUTF8(message, "\uFFFD")}
	if fields != "" && json.Valid([]byte(fields)) {
		line.Fields = json.RawMessage(strings.ToValidUTF8(fields, "\uFFFD"))
	}
	l.left -= int64(len(line.Message)+len(line.Fields)) + lineCost
	if l.left < 0 {
		l.full = true
		line = LogLine{Time: line.Time, Level: "warn", Message: "log truncated: this run has reached its limit"}
	}
	l.lines = append(l.lines, line)
	if l.tell != nil {
		l.tell(line)
	}
	return !l.full
}
