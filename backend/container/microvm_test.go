//go:build !containers

package container

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestConfigurationOfAVirtualMachine(t *testing.T) {
	t.Parallel()
	for file, m := range map[string]MicroVM{
		"microvm.json":       {Kernel: "/k/vmlinux", Root: "/i/root.ext4", Socket: "/r/v.sock", CPUs: 1, MemoryBytes: 256 << 20},
		"microvm_state.json": {Kernel: "/k/vmlinux", Root: "/i/root.ext4", State: "/s/state.ext4", Socket: "/r/v.sock", CPUs: 2, MemoryBytes: 1 << 30},
	} {
		got, err := m.Config()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(got)+"\n" != string(want) {
			t.Errorf("%s: %v\n%s", file, err, got)
		}
	}
}

func TestVirtualMachinesSayWhyTheyAreNotAvailable(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "kvm")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found := func(name string) (string, error) { return "/usr/bin/" + name, nil }
	missing := func(string) (string, error) { return "", exec.ErrNotFound }
	for _, c := range []struct {
		kvm  string
		look func(string) (string, error)
		want Code
	}{{there + "0", found, NoKVM}, {there, missing, NoFirecracker}, {there, found, MicroVMSmokeOnly}} {
		tier := microVM(c.kvm, c.look)
		if tier.Available || len(tier.Reasons) != 1 || tier.Reasons[0].Code != c.want || tier.Reasons[0].Hint == "" {
			t.Errorf("%s: %+v", c.want, tier)
		}
	}
}
