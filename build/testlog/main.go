// Command testlog reads the output of `go test -json` and adds the skipped tests to a file, with
// their reasons, which make test shows at the end, so that a skipped test does not look like a
// passed one.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// partOfAnother is the skip reason of a test that is a helper program for other tests.
const partOfAnother = "a part of another test"

type event struct {
	Action, Package, Test, Output string
}

func main() {
	skipped := flag.String("skipped", "", "`file` to which skipped tests are added")
	flag.Parse()
	output := map[[2]string]string{} // of tests that have not ended
	var skips strings.Builder
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			continue // output of the tools themselves
		}
		test := [2]string{e.Package, e.Test}
		switch e.Action {
		case "output":
			output[test] += e.Output
		case "skip":
			if why := reason(output[test]); e.Test != "" && why != partOfAnother {
				fmt.Fprintf(&skips, "%s.%s: %s\n", strings.TrimPrefix(e.Package, "helix/"), e.Test, why)
			}
			delete(output, test)
		case "pass", "fail":
			delete(output, test)
		}
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
	if *skipped == "" || skips.Len() == 0 {
		return
	}
	f, err := os.OpenFile(*skipped, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(skips.String())
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// said matches the output of a skipped test: file, line and reason.
var said = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: (.*)$`)

// reason returns the reason in the output of a skipped test, without the position.
func reason(output string) string {
	if m := said.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	return "it gives no reason"
}
