// Attributes of streams: kept and answered; they change nothing here.
#include "entry.h"

using namespace sim;

namespace {

std::shared_ptr<Stream> stream_of(CUstream handle, DefaultStream zero) {
  return current_context()->stream(handle, zero);
}

bool known(CUstreamAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN ||
         attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY;
}

}  // namespace

SIM_STREAM_API(cuStreamGetAttribute, _ptsz, query, (CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* out),
               (handle, attribute, out)) {
  require(out != nullptr && known(attribute));
  std::shared_ptr<Stream> stream = stream_of(handle, zero);
  *out = {};
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) out->priority = stream->priority;
  if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) out->syncPolicy = CU_SYNC_POLICY_AUTO;
  if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) out->memSyncDomainMap = {0, 1};
  auto set = stream->attributes.find(attribute);
  if (set != stream->attributes.end()) *out = set->second;
}

SIM_STREAM_API(cuStreamSetAttribute, _ptsz, change,
               (CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value),
               (handle, attribute, value)) {
  require(value != nullptr && known(attribute) && attribute != CU_LAUNCH_ATTRIBUTE_PRIORITY);
  stream_of(handle, zero)->attributes[attribute] = *value;
}

SIM_STREAM_API(cuStreamCopyAttributes, _ptsz, change, (CUstream to, CUstream from), (to, from)) {
  std::shared_ptr<Stream> source = stream_of(from, zero);
  stream_of(to, zero)->attributes = source->attributes;
}
