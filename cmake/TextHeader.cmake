# train_gpt_text_header(TARGET FILE NAME): generates a header, named after FILE, for TARGET's sources; its constant
# NAME holds the text of FILE. CMake reconfigures when FILE changes.
function(train_gpt_text_header target file name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  get_filename_component(stem ${file} NAME_WE)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/${stem}.h @ONLY CONTENT "#pragma once
inline constexpr char @name@[] = R\"text(@text@)text\";
")
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
