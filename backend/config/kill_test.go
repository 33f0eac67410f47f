package config

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writerEnv makes the test program the writer that TestKilledWriterLeavesValidFile kills.
const writerEnv = "HELIX_TEST_WRITER"

func killTexts() []string {
	return []string{"app.theme = \"light\"\n" + strings.Repeat("# light\n", 4000), "app.theme = \"dark\"\n" + strings.Repeat("# dark\n", 4000)}
}

// writeForEver never returns. It prints a line after its second write, because the first write of a
// new file creates no backup.
func writeForEver(path string) {
	for i := 0; ; i++ {
		if err := WriteFile(context.Background(), path, []byte(killTexts()[i%2])); err != nil {
			panic(err)
		}
		if i == 1 {
			_, _ = os.Stdout.WriteString("begun\n")
		}
	}
}

func TestKilledWriterLeavesValidFile(t *testing.T) {
	t.Parallel()
	rounds := 12
	if os.Getenv("HELIX_LONG") != "" {
		rounds = 200
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), writerEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond) // the time of death matters
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, name := range []string{path, path + ".bak"} {
			if b, err := os.ReadFile(name); err != nil || !slices.Contains(killTexts(), string(b)) {
				t.Fatalf("round %d: %s has %d bytes, %v", i, name, len(b), err)
			}
		}
		if err := WriteFile(t.Context(), path, []byte(killTexts()[0])); err != nil {
			t.Fatalf("round %d: the lock of the dead stays: %v", i, err)
		}
	}
	if left, _ := filepath.Glob(path + tempMark + "*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
