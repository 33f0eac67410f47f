package worker

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const startDir = ""

// attributes starts the child without a window, unaffected by the console's Ctrl+C, and with a
// lower priority than Helix.
func attributes(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP | windows.BELOW_NORMAL_PRIORITY_CLASS,
	}
}

func yieldTo(*os.Process) {} // see attributes

// killGroup kills a process; its job kills the rest.
func killGroup(p *os.Process) { _ = p.Kill() }

// job contains the child: when the handle closes, at the latest with this process, the system kills
// the child. The child waits for its first frame before it does anything, so it is in the job in
// time.
type job struct{ h windows.Handle }

func newJob(p *os.Process, memory int64) (job, []string) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return job{}, []string{ReasonJob}
	}
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	l.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION | windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
	l.BasicLimitInformation.ActiveProcessLimit = 1
	if memory > 0 {
		l.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY
		l.ProcessMemoryLimit = uintptr(memory)
	}
	_, err = windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&l)), uint32(unsafe.Sizeof(l)))
	if err == nil {
		var c windows.Handle
		c, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
		if err == nil {
			err = windows.AssignProcessToJobObject(h, c)
			windows.CloseHandle(c)
		}
	}
	if err != nil {
		windows.CloseHandle(h)
		return job{}, []string{ReasonJob}
	}
	return job{h}, nil
}

func (j job) close() {
	if j.h != 0 {
		windows.CloseHandle(j.h)
	}
}
