// What a framework with an old C++ protobuf does: descriptors, a dynamic message, parsing. Opened RTLD_GLOBAL by the
// tests, so that libprotobuf's symbols stand in the global scope before or after our library comes.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <memory>
#include <string>

namespace pb = google::protobuf;

// 1 if a message survives being described, written, parsed and read by reflection.
extern "C" int protobuf_user_works() {
  pb::FileDescriptorProto file;
  file.set_name("test.proto");
  pb::DescriptorProto* type = file.add_message_type();
  type->set_name("Pair");
  pb::FieldDescriptorProto* field = type->add_field();
  field->set_name("text");
  field->set_number(1);
  field->set_label(pb::FieldDescriptorProto::LABEL_OPTIONAL);
  field->set_type(pb::FieldDescriptorProto::TYPE_STRING);

  pb::FileDescriptorProto copy;
  if (!copy.ParseFromString(file.SerializeAsString())) return 0;
  pb::DescriptorPool pool;
  const pb::FileDescriptor* built = pool.BuildFile(copy);
  if (built == nullptr) return 0;
  pb::DynamicMessageFactory factory;
  std::unique_ptr<pb::Message> message(factory.GetPrototype(built->message_type(0))->New());
  const pb::FieldDescriptor* text = built->message_type(0)->field(0);
  message->GetReflection()->SetString(message.get(), text, "hello");
  std::unique_ptr<pb::Message> parsed(message->New());
  if (!parsed->ParseFromString(message->SerializeAsString())) return 0;
  return parsed->GetReflection()->GetString(*parsed, text) == "hello" ? 1 : 0;
}
