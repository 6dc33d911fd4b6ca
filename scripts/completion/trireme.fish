# Completion of trireme for fish. It holds no names: the program says what could stand at the cursor.
function __trireme_complete
    set -l words (commandline -opc)
    set -l now (commandline -ct)
    for line in (command $words[1] complete $words[2..-1] "$now" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$now"
        else
            echo $line
        end
    end
end
complete -c trireme -f -a '(__trireme_complete)'
