"""Finds the changed files with git. As a program, it prints one file per line, or nothing if there is no git history."""
import os
import subprocess


def git(source, *words):
    """The output of a git command, or None if it fails."""
    try:
        done = subprocess.run(["git", "-C", source, *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def number_of_commits(source):
    said = git(source, "rev-list", "--count", "HEAD")
    return int(said) if said else None


def commit_before(source, passed_file):
    """(commit, words for it): TRIREME_SINCE, the commit that passed last, or what was there before the last four hours of
    commits and at least ten of them."""
    wanted = os.environ.get("TRIREME_SINCE")
    if wanted:
        if git(source, "rev-parse", "--verify", "--quiet", wanted + "^{commit}") is None:
            raise SystemExit(f"tests: TRIREME_SINCE={wanted} is not a commit of {source}")
        return wanted, f"since TRIREME_SINCE={wanted}"
    if os.path.exists(passed_file):
        with open(passed_file) as f:
            commit = f.read().strip()
        if git(source, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
            return commit, f"since {commit[:9]}, which passed last"
    log = [line.split() for line in (git(source, "log", "--format=%H %ct", "-n", "500") or "").splitlines()]
    if not log:
        return None, ""
    newest = int(log[0][1])
    recent = sum(newest - int(time) <= 4 * 3600 for _, time in log)
    place = min(max(recent, 10), len(log) - 1)
    return log[place][0], f"in the last {place} commits"


def changed_files(source, passed_file):
    """({file} relative to the source, words for since when), or (None, why) where all count as changed."""
    commit, words = commit_before(source, passed_file)
    if commit is None:
        return None, "there is no git history, so all folders count as changed"
    files = (git(source, "diff", "--name-only", "--no-renames", commit) or "").splitlines()
    files += (git(source, "ls-files", "--others", "--exclude-standard") or "").splitlines()
    return set(files), words


def remember(source, passed_file):
    """HEAD passed, unless something is not committed."""
    head = git(source, "rev-parse", "HEAD")
    if head and git(source, "status", "--porcelain") == "":
        with open(passed_file, "w") as f:
            f.write(head)


if __name__ == "__main__":
    TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    print("\n".join(sorted(changed_files(TOP, os.path.join(TOP, "build/last-passed"))[0] or [])))
