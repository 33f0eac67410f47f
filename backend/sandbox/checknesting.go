package sandbox

// CheckNesting refuses, as CompileJS does, a source that is nested too deeply to be parsed
// safely: a recursive parser would exhaust the stack, which ends the process. Call it before
// parsing the text of a tool. The error is *Error of class compile with a CompileDetail.
func CheckNesting(s Source) error {
	if e := checkNesting(s); e != nil {
		return e
	}
	return nil
}
