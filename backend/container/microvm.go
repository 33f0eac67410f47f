package container

import (
	"encoding/json"
	"os"
)

// MicroVM is what a virtual machine of Firecracker is made of. It has no network interface: what it may reach is
// relayed over its socket, as for a container.
type MicroVM struct {
	Kernel      string // path of an uncompressed kernel
	Root        string // path of the image with the root file system, which is read-only
	State       string // path of the image with stored data, whose size is the quota; "": none
	Socket      string // path of the Unix socket that carries the guest's connections
	CPUs        int
	MemoryBytes int64
}

// The drives of a virtual machine, and the number by which the guest is reached.
const (
	rootDrive  = "root"
	stateDrive = "state"
	guestCID   = 3
)

// bootArgs start the init process at once, without devices that are not there, and end the machine with it.
const bootArgs = "console=ttyS0 reboot=k panic=1 pci=off i8042.noaux i8042.nomux i8042.dumbkbd quiet ro init=/.helix/init -- vsock"

// Config returns the configuration file of Firecracker. The same machine always has the same configuration.
func (m *MicroVM) Config() ([]byte, error) {
	type drive struct {
		ID       string `json:"drive_id"`
		Path     string `json:"path_on_host"`
		Root     bool   `json:"is_root_device"`
		ReadOnly bool   `json:"is_read_only"`
	}
	type bootSource struct {
		Kernel string `json:"kernel_image_path"`
		Args   string `json:"boot_args"`
	}
	type machine struct {
		CPUs      int   `json:"vcpu_count"`
		MemoryMiB int64 `json:"mem_size_mib"`
		Threads   bool  `json:"smt"`
	}
	type vsock struct {
		CID    int    `json:"guest_cid"`
		Socket string `json:"uds_path"`
	}
	drives := []drive{{rootDrive, m.Root, true, true}}
	if m.State != "" {
		drives = append(drives, drive{stateDrive, m.State, false, false})
	}
	return json.MarshalIndent(struct {
		Boot    bootSource `json:"boot-source"`
		Drives  []drive    `json:"drives"`
		Machine machine    `json:"machine-config"`
		Vsock   vsock      `json:"vsock"`
	}{bootSource{m.Kernel, bootArgs}, drives, machine{max(1, m.CPUs), m.MemoryBytes >> 20, false}, vsock{guestCID, m.Socket}}, "", "  ")
}

// microVM reports that no tools run in virtual machines, and why.
func microVM(kvm string, look func(string) (string, error)) Tier {
	r := Reason{MicroVMSmokeOnly, "This version doesn't run tools in virtual machines.", "Use the container tier."}
	f, err := os.OpenFile(kvm, os.O_RDWR, 0)
	if err == nil {
		f.Close()
		if _, err := look("firecracker"); err != nil {
			r = Reason{NoFirecracker, "Firecracker isn't installed.", "Use the container tier."}
		}
	} else {
		r = Reason{NoKVM, "KVM can't be used on this computer.", "Use the container tier."}
	}
	return Tier{Tier: "microvm", Reasons: []Reason{r}}
}

const kvmDevice = "/dev/kvm"
