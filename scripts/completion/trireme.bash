# Completion of trireme for bash. It holds no names: the program says what could stand at the cursor.
_trireme() {
  local words candidates candidate word cut files=
  # As they stand on the line: bash's own words are cut at `=` and `:` too.
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
  word=${words[-1]}
  mapfile -t candidates < <("${words[0]/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null)
  # What is replaced begins behind the last `=` or `:`, where these divide words.
  cut=
  if [[ $word == *[=:]* ]]; then
    cut=${word%"${word##*[=:]}"}
  fi
  COMPREPLY=()
  for candidate in "${candidates[@]}"; do
    if [[ $candidate == ":files" ]]; then
      files=yes
    elif [[ -n $candidate ]]; then
      candidate=${candidate%%$'\t'*}
      COMPREPLY+=("${candidate#"$cut"}")
    fi
  done
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${word#"$cut"}")
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _trireme trireme
