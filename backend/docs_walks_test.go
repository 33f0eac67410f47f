package backend

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestArchitectureWalkthroughsMatchTheSource reads the walkthroughs in ARCHITECTURE.md: each station
// must name a file and a function in it, and no walkthrough may have more than five stations.
func TestArchitectureWalkthroughsMatchTheSource(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	stations := regexp.MustCompile("(?m)^([0-9])\\. `([a-z_/]+\\.go)` `(\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(stations) != 10 {
		t.Errorf("%d stations of two walks with five each", len(stations))
	}
	for _, s := range stations {
		source, err := os.ReadFile(filepath.FromSlash(s[2]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + s[3] + `[\[(]`).Match(source) {
			t.Errorf("%s has no function %s", s[2], s[3])
		}
	}
}
