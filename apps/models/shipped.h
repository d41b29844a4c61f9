#pragma once

#include <string>
#include <string_view>

/// Models and lists of labels that have names: what ships, and what the user fetched.
namespace lamina::app {

/// The first layer that ships: from the source tree one stands in or built in, or from where Lamina is installed.
std::string default_model();

/// Where a file of weights/ is that ships with Lamina, found in the same places. Throws Error naming them if nowhere.
std::string shipped_file(const std::string& name);

/// What a name that a user gave stands for: a file, or, if there is none of that name, what ships under it: a model
/// (digits, alexnet-conv1), as a list of labels imagenet; or a model in the user's data folder.
std::string model_file(const std::string& name);
std::string labels_file(const std::string& name);

/// The classifier that `lamina.get_classifier` brought into the user's data folder; empty where there is none.
std::string fetched_classifier();

/// What brings it: "`python -m lamina.get_classifier`" of the Python package that this command is in, else the script
/// of a clone. The command is in backticks, for users copy it.
std::string classifier_bringer();

}  // namespace lamina::app
